// Prints who is signed in, by the session in SESSION_FILE or else by SERVICE_TOKEN. With WAIT, first waits for the end of its
// input, so that many processes begin at the same moment.
import { Service, data } from '@service/sdk'

if (process.env.WAIT) {
  console.log('ready')
  for await (const _ of process.stdin);
}
const { SERVICE_API_URL: url, SESSION_FILE: file } = process.env
try {
  const service = file ? Service.fromSession(url, file) : Service.fromEnvironment()
  console.log(`email ${(await data(service.api.GET('/v1/whoami'))).user.email}`)
} catch (error) {
  console.log(`${error.name}: ${error.message}`)
  process.exitCode = 1
}
