// Signs in. The test that starts it opens the address that it prints.
import { signIn } from '@service/sdk'

const { SERVICE_API_URL: url, CLIENT_ID: clientId, SESSION_FILE: file } = process.env
await signIn(url, { clientId, file, openUrl: address => console.log(`open ${address}`) })
