// A client that speaks only stdio, in front of a bridge that speaks HTTP and OAuth for it: `mcp-remote` or `service mcp serve`.
// COMMAND is the bridge with its arguments, as a JSON array. What the bridge prints about signing in is passed on.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { close, did, open, reads, writes } from './talk.mjs'

const { COMMAND, READ_ONLY } = process.env
const [command, ...args] = JSON.parse(COMMAND)
const client = new Client({ name: 'interop', version: '1' })
// The bridge gets this process's whole environment: by default the SDK passes on a few variables only.
const transport = new StdioClientTransport({ command, args, env: process.env, stderr: 'pipe' })
transport.stderr.on('data', watch())

/** Finds addresses of the authorization endpoint in what a program prints. */
function watch() {
  let rest = ''
  return data => {
    process.stderr.write(data)
    rest += data
    const lines = rest.split('\n')
    rest = lines.pop()
    for (const line of lines) {
      const found = line.trim().match(/^https?:\S+\/oauth\/authorize\?\S+$/)
      if (found) open(found[0])
    }
  }
}

await client.connect(transport, { timeout: 120_000 })
did('connect', { server: client.getServerVersion()?.name })
const { tools } = await client.listTools()
did('list', { tools: tools.map(tool => tool.name) })
const call = (name, parameters) => client.callTool({ name, arguments: parameters }, undefined, { timeout: 120_000 })
await reads(call)
if (!READ_ONLY) await writes(call)
did('end')
await client.close()
close()
