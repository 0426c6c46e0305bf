// The Inspector's command line, started once for each call, as in a terminal. It keeps its tokens in MCP_STORAGE_DIR.
import { spawn } from 'node:child_process'
import { close, did, open, reads, writes } from './talk.mjs'

const { MCP_URL, INSPECTOR, ERA, DOCUMENT } = process.env

/** Runs the Inspector; returns the JSON that it prints. */
function inspect(...args) {
  const options = ['--cli', MCP_URL, '--transport', 'http', '--protocol-era', ERA, '--format', 'json']
  if (DOCUMENT) options.push('--client-metadata-url', DOCUMENT)
  const child = spawn(process.execPath, [INSPECTOR, ...options, ...args], { stdio: ['pipe', 'pipe', 'pipe'] })
  let printed = '', complained = ''
  child.stdout.on('data', data => { printed += data })
  child.stderr.on('data', data => {
    process.stderr.write(data)
    complained += data
    const found = complained.match(/Please navigate to: (\S+)\n/)
    if (found) {
      complained = complained.slice(found.index + found[0].length)
      open(found[1])
    }
    if (complained.includes('[y/N]')) {
      complained = ''
      child.stdin.write('y\n')
    }
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', code => {
      if (code === 0) resolve(JSON.parse(printed).result)
      else reject(new Error(`the Inspector exits with ${code}: ${printed}${complained}`))
    })
  })
}

const { tools } = await inspect('--method', 'tools/list')
did('connect')
did('list', { tools: tools.map(tool => tool.name) })
const call = (name, parameters) =>
  inspect('--method', 'tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(parameters))
await reads(call)
await writes(call)
did('end')
close()
