// How these clients talk with `cargo xtask mcp-interop`, which starts them: JSON objects, one a line, over standard output and
// input. The harness opens addresses in a browser, and moves the server's clock; the client does everything else by itself.
import http from 'node:http'
import readline from 'node:readline'

const input = readline.createInterface({ input: process.stdin })
const lines = input[Symbol.asyncIterator]()

export const say = message => process.stdout.write(`${JSON.stringify(message)}\n`)

/** Says that a step of the scenario is done. */
export const did = (step, details = {}) => say({ did: step, ...details })

/** Lets a user open an address. */
export const open = url => say({ open: String(url) })

/** Lets the access token expire on the server. */
export async function expire() {
  say({ expire: true })
  const { value } = await lines.next()
  if (value !== 'expired') throw new Error(`the harness answers ${value}`)
}

/** Ends the conversation, so that the process can exit. */
export const close = () => input.close()

/** Waits for redirects of the browser on a port of this machine, as an app does. */
export async function listen() {
  const arrived = []
  let wake = () => {}
  const server = http.createServer((request, response) => {
    const url = new URL(request.url, 'http://127.0.0.1')
    const known = url.pathname === '/callback'
    response.writeHead(known ? 200 : 404, { 'content-type': 'text/html', connection: 'close' })
    response.end('<!doctype html><title>Done</title><p id=done>You can close this window.')
    if (known) arrived.push(url.searchParams)
    wake()
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    redirectUri: `http://127.0.0.1:${server.address().port}/callback`,
    close: () => server.close(),
    async next() {
      while (arrived.length === 0) await new Promise(resolve => { wake = resolve })
      return arrived.shift()
    },
  }
}

/** The text of a tool's result; throws if the tool failed. */
export function textOf(result) {
  const text = (result.content ?? []).filter(part => part.type === 'text').map(part => part.text).join('\n')
  if (result.isError) throw new Error(`the tool failed: ${text}`)
  return text
}

let packs = 0
/** Arguments for a new pack. */
export const newPack = () => ({ name: `Pack ${++packs}`, type: 'context', text: 'Friendly and short.' })

/**
 * Reads before and after the access token expired. `call` calls a tool, and lets the user agree if the server wants that; the
 * harness knows from the order of the messages when the user was asked.
 */
export async function reads(call) {
  did('read', { result: textOf(await call('whoami', {})) })
  await expire()
  did('read after expiry', { result: textOf(await call('whoami', {})) })
}

/** Writes, reads and writes again, with a token that allows reading only. */
export async function writes(call) {
  did('write', { result: textOf(await call('create_pack', newPack())) })
  did('read after write', { result: textOf(await call('search_packs', { type: 'context', query: 'friendly' })) })
  did('write again', { result: textOf(await call('create_pack', newPack())) })
}
