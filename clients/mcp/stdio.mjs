// A client that speaks only stdio, in front of a bridge that speaks HTTP and OAuth for it: `mcp-remote` or `service mcp serve`.
// COMMAND is the bridge with its arguments, as a JSON array; PREPARE are commands that a user runs in a terminal before that.
// Addresses that either prints for the user are opened.
import { spawn } from 'node:child_process'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { close, did, open, reads, writes } from './talk.mjs'

const { COMMAND, PREPARE } = process.env

/** Finds addresses of the authorization endpoint in what a program prints. */
function watch() {
  let rest = ''
  return data => {
    process.stderr.write(data)
    rest += data
    const lines = rest.split('\n')
    rest = lines.pop()
    for (const line of lines) {
      const found = line.match(/https?:\S+\/oauth\/authorize\?\S+/)
      if (found) open(found[0])
    }
  }
}

/** Runs a command in a user's terminal, where `CI` is not set even if this process runs in CI. */
async function inTerminal(command) {
  const { CI, ...env } = process.env
  const options = { env, stdio: ['pipe', 'pipe', 'inherit'] }
  const terminal = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], options)
  terminal.stdout.on('data', watch())
  const code = await new Promise((resolve, reject) => terminal.on('error', reject).on('exit', resolve))
  if (code !== 0) throw new Error(`${command} exits with ${code}`)
}

for (const command of JSON.parse(PREPARE ?? '[]')) {
  await inTerminal(command)
  did('prepare')
}
const [command, ...args] = JSON.parse(COMMAND)
const client = new Client({ name: 'interop', version: '1' })
// The bridge gets this process's whole environment: by default the SDK passes on a few variables only.
const transport = new StdioClientTransport({ command, args, env: process.env, stderr: 'pipe' })
transport.stderr.on('data', watch())

await client.connect(transport, { timeout: 120_000 })
did('connect')
const { tools } = await client.listTools()
did('list', { tools: tools.map(tool => tool.name) })
const call = (name, parameters) => client.callTool({ name, arguments: parameters }, undefined, { timeout: 120_000 })
await reads(call)
await writes(call)
did('end')
await client.close()
close()
