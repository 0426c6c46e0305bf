// HTTP as every part of this library uses it: to one service, without redirects, and never in plain text over a network.

const TIMEOUT_MS = 15_000
/** A request that may be repeated is sent again after these delays. */
const RETRY_DELAYS_MS = [100, 400]
/** Requests that may be repeated: they create nothing, and a repeated deletion finds nothing more to delete. */
export const REPEATABLE_METHODS = ['GET', 'DELETE']
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** The URL of a service, without a trailing slash. Throws if tokens would travel in plain text. */
export function serviceUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || url.search || url.hash || url.username || !['http:', 'https:'].includes(url.protocol)) {
    throw new TypeError('the URL of the service looks like https://service.example')
  }
  if (url.protocol === 'http:' && !LOOPBACK.test(url.hostname)) {
    throw new TypeError('the URL of the service must use https, or http on this machine')
  }
  return text.replace(/\/+$/, '')
}

/** Sends a request. A redirect is an error, so that a token is sent to the service and to no other host. */
export async function send(request: Request): Promise<Response> {
  return await fetch(request, { redirect: 'error', signal: AbortSignal.any([request.signal, AbortSignal.timeout(TIMEOUT_MS)]) })
}

/** Sends a form that may be repeated: a refresh gets the same answer again if its response was lost. */
export async function postForm(url: string, form: Record<string, string>): Promise<Response> {
  return await repeat(() => send(new Request(url, { method: 'POST', body: new URLSearchParams(form) })))
}

/** Sends a request up to three times, if the connection breaks or the service is temporarily unavailable. */
export async function repeat(attempt: () => Promise<Response>): Promise<Response> {
  for (const delay of RETRY_DELAYS_MS) {
    const response = await attempt().catch(() => undefined)
    if (response && ![502, 503, 504].includes(response.status)) return response
    await new Promise(resolve => setTimeout(resolve, delay))
  }
  return await attempt()
}
