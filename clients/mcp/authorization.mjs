// The authorization scenarios of the official conformance suite. The suite prints an address and waits for its user.
import { spawn } from 'node:child_process'
import net from 'node:net'
import { close, did, open } from './talk.mjs'

const { CONFORMANCE, ISSUER, MCP_URL, CLIENT_ID } = process.env

const probe = net.createServer()
await new Promise(resolve => probe.listen(0, '127.0.0.1', resolve))
const { port } = probe.address()
await new Promise(resolve => probe.close(resolve))

const args = ['authorization', '--url', ISSUER, '--client-id', CLIENT_ID, '--resource', MCP_URL, '-p', port, '-o', 'results']
const suite = spawn(process.execPath, [CONFORMANCE, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
let printed = '', isOpen = false
suite.stdout.on('data', data => {
  process.stderr.write(data)
  printed += data
  const found = printed.split(/\s/).slice(0, -1).find(word => word.startsWith(`${ISSUER}/oauth/authorize?`))
  if (found && !isOpen) {
    isOpen = true
    open(found)
  }
})
suite.on('exit', code => {
  close()
  if (code === 0) did('end', { summary: printed.trim().split('\n').slice(-3) })
  process.exitCode = code
})
