// Signs in, creates, handles a 422 and pages through a list. The test that starts it opens the address that it prints.
import assert from 'node:assert/strict'
import { stat } from 'node:fs/promises'
import { inspect } from 'node:util'
import { NotFound, Secret, Service, ValidationFailed, data, pages, signIn, signOut } from '@service/sdk'

const { SERVICE_API_URL: url, CLIENT_ID: clientId, SESSION_FILE: file } = process.env
const ITEMS = 250

await signIn(url, { clientId, file, scope: 'read write', openUrl: address => console.log(`open ${address}`) })
assert.equal((await stat(file)).mode & 0o777, 0o600)

const service = Service.fromSession(url, file)
const who = await data(service.api.GET('/v1/whoami'))
console.log(`email ${who.user.email}`)

const create = name => data(service.api.POST('/v1/projects', { body: { name } }))
for (let done = 0; done < ITEMS; done += 25) {
  await Promise.all(Array.from({ length: 25 }, (_, index) => create(`Project ${done + index}`)))
}
const names = new Set()
const list = cursor => data(service.api.GET('/v1/projects', { params: { query: { ...cursor, limit: 100 } } }))
for await (const project of pages(list)) names.add(project.name)
assert.equal(names.size, ITEMS)

await assert.rejects(create(''), error => {
  assert(error instanceof ValidationFailed)
  assert.equal(error.status, 422)
  assert.equal(error.error, 'validation_failed')
  assert(error.error_description.length > 0 && error.requestId.length > 0 && error.fields)
  return true
})
const missing = { params: { path: { projectId: 'proj_01m955vw00fjqrz47smcqrkmzz' } } }
await assert.rejects(service.api.GET('/v1/projects/{projectId}', missing), NotFound)

const secret = new Secret('svc_cli_hidden')
for (const shown of [String(secret), JSON.stringify({ secret }), inspect({ secret }), inspect(service, { depth: 9, showHidden: true })]) {
  assert(!shown.includes('svc_') && !shown.includes('eyJ'), shown)
}
assert.throws(() => Service.fromSession('http://service.example', file), /https/)

if (process.env.SIGN_OUT) {
  await signOut(url, file)
  await assert.rejects(stat(file), { code: 'ENOENT' })
}
console.log('done')
