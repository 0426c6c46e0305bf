// Runs a peer that is written for Node.js: `node main.mjs PRODUCT setup` or `node main.mjs PRODUCT serve`.
//
// `setup` creates the tables and SESSIONS sessions in DATABASE_URL, prints one line of JSON that describes them, and exits.
// `serve` listens on 127.0.0.1:PORT, prints one line when it is ready, and ends when its standard input does.
//
// A module for a product exports `setup(sessions)`, which returns what is printed, and `handler()`, which returns a
// listener of node:http. Only the workers load the product, so that the memory of the primary process stays small.
import cluster from 'node:cluster'
import http from 'node:http'

// One for each core of the machine on which the figures of docs/performance.md were measured: a process runs JavaScript on
// one core.
const WORKERS = 2

// Only that line is for standard output: later, the reader may be gone.
const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`)
console.log = console.info = console.error

const { PORT, SESSIONS = '64' } = process.env
const [product, command] = process.argv.slice(2)
const load = () => import(`./${product}.mjs`)

if (command === 'setup') {
  const [{ setup }, { pool }] = await Promise.all([load(), import('./database.mjs')])
  say(await setup(Number(SESSIONS)))
  await pool.end()
} else if (cluster.isPrimary) {
  const workers = Array.from({ length: WORKERS }, () => cluster.fork())
  cluster.on('exit', () => process.exit(1))
  await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('listening', resolve))))
  say({ ready: true })
  process.stdin.on('end', () => process.exit(0)).resume()
} else {
  const { handler } = await load()
  http.createServer(await handler()).listen(Number(PORT), '127.0.0.1')
}
