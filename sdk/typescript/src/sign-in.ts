// Signing in with a browser: an authorization code with PKCE, on a redirect to this machine (RFC 8252).
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tokensOf } from './credentials.js'
import { SignInFailed, errorOf } from './errors.js'
import { postForm, send, serviceUrl } from './http.js'
import { SessionFile } from './session-file.js'

const TIMEOUT_MS = 300_000
const PAGE = '<!doctype html><title>Signed in</title><p>You can close this window.'

export interface SignInOptions {
  /** The OAuth client. It is registered with the redirect URI `http://127.0.0.1/callback`; the port does not count. */
  clientId: string
  /** Where to store the session. */
  file: string
  /** The scopes to ask for; `read` by default. */
  scope?: string
  /** Shows the user an address: opens it in a browser, or prints it. */
  openUrl: (url: string) => unknown
}

/** Signs a user in and stores the session. */
export async function signIn(serviceAddress: string, options: SignInOptions): Promise<void> {
  const url = serviceUrl(serviceAddress)
  const [verifier, state] = [randomBytes(48).toString('base64url'), randomBytes(32).toString('base64url')]
  const metadata = await readMetadata(url)
  const callback = await Callback.listen(state)
  try {
    const resource = `${url}/v1`
    const asked = new URLSearchParams({
      response_type: 'code',
      client_id: options.clientId,
      redirect_uri: callback.redirectUri,
      scope: options.scope ?? 'read',
      state,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
      resource,
    })
    await options.openUrl(`${metadata.authorization_endpoint}?${asked}`)
    const answer = await callback.answer()
    // The answer of another server must not be sent to this one (RFC 9207).
    if (answer.get('iss') !== url) throw new SignInFailed('the answer is of another server')
    const code = answer.get('code')
    if (!code) throw new SignInFailed(`the service answered ${answer.get('error') ?? 'nothing'}`)
    const body = new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: options.clientId,
      code,
      code_verifier: verifier,
      redirect_uri: callback.redirectUri,
      resource,
    })
    const response = await send(new Request(metadata.token_endpoint, { method: 'POST', body }))
    if (!response.ok) throw await errorOf(response)
    const tokens = tokensOf(url, options.clientId, await response.json())
    const file = new SessionFile(options.file)
    await file.locked(() => file.write(tokens))
  } finally {
    callback.close()
  }
}

/** Revokes the session in `path` and deletes the file. */
export async function signOut(serviceAddress: string, path: string): Promise<void> {
  const [url, file] = [serviceUrl(serviceAddress), new SessionFile(path)]
  await file.locked(async () => {
    const kept = await file.read()
    if (!kept) return
    if (kept.issuer !== url) throw new TypeError(`the session is of ${kept.issuer}`)
    const form = { token: kept.refreshToken.expose(), client_id: kept.clientId }
    const response = await postForm(`${url}/oauth/revoke`, form)
    if (!response.ok) throw await errorOf(response)
    await file.delete()
  })
}

interface Metadata {
  issuer: string
  authorization_endpoint: string
  token_endpoint: string
}

async function readMetadata(url: string): Promise<Metadata> {
  const response = await send(new Request(`${url}/.well-known/oauth-authorization-server`))
  if (!response.ok) throw await errorOf(response)
  const metadata = (await response.json()) as Metadata
  if (metadata.issuer !== url) throw new SignInFailed('the service calls itself by another URL; use that one')
  serviceUrl(metadata.authorization_endpoint)
  serviceUrl(metadata.token_endpoint)
  return metadata
}

/** Waits for the browser on a port of this machine. */
class Callback {
  readonly #server = createServer((request, response) => {
    // Some paths, such as `//`, are no URLs. They get the 404 of every other path.
    const [address, base] = [request.url ?? '/', 'http://127.0.0.1']
    const target = new URL(URL.canParse(address, base) ? address : '/', base)
    const answer = target.searchParams
    const once = new Set(answer.keys()).size === answer.size
    // Any program on this machine can ask; only the answer with our state counts.
    const known = target.pathname === '/callback' && once && isSame(answer.get('state') ?? '', this.#state)
    const headers = { 'content-type': 'text/html; charset=utf-8', 'referrer-policy': 'no-referrer', connection: 'close' }
    response.writeHead(known ? 200 : 404, headers).end(known ? PAGE : '')
    if (known) this.#resolve(answer)
  })
  readonly #state: string
  #resolve: (answer: URLSearchParams) => void = () => {}
  readonly #answered = new Promise<URLSearchParams>(resolve => { this.#resolve = resolve })

  private constructor(state: string) {
    this.#state = state
  }

  static async listen(state: string): Promise<Callback> {
    const callback = new Callback(state)
    await new Promise<void>((resolve, reject) => {
      callback.#server.once('error', reject)
      callback.#server.listen(0, '127.0.0.1', resolve)
    })
    return callback
  }

  get redirectUri(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/callback`
  }

  async answer(): Promise<URLSearchParams> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new SignInFailed('there was no sign-in within five minutes')), TIMEOUT_MS)
    })
    return await Promise.race([this.#answered, late]).finally(() => clearTimeout(timer))
  }

  close(): void {
    this.#server.close()
    this.#server.closeIdleConnections()
  }
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
