// A lock between processes, which the kernel releases when its holder exits, however it exits.
//
// Node.js has no file locks. A lock file that is created and deleted would stay behind when its holder is killed, and a
// time-out that calls it stale could be wrong. So the lock is a socket that its holder listens on: whether it is held is
// whether a connection succeeds.
//
// 1. The sockets of a lock are numbered. Only the one with the highest number counts, and it is never deleted.
// 2. If a connection to it succeeds, the lock is held. The connection ends when the holder closes the socket or exits.
// 3. Otherwise, create the next number. The socket listens before it gets that name, by a hard link, which only one process
//    can make. So a socket under a number was listening, and if it does not, its holder is gone.
// 4. Look again: a process that was slow may have made a number that others have passed. It gives way.
// 5. The holder deletes lower numbers. It releases the lock by closing its socket.
import { randomBytes } from 'node:crypto'
import { link, readdir, rm } from 'node:fs/promises'
import net from 'node:net'
import { basename, dirname, join } from 'node:path'
import { SessionBusy, SessionFileError } from './errors.js'

const TIMEOUT_MS = 30_000
/** The longest path of a socket: 104 bytes on macOS, 108 on Linux, with a final zero. */
const MAX_PATH_BYTES = 103

/** Does something while no other process holds the lock with this path, whose folder exists and is private. */
export async function withLock<T>(path: string, action: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + TIMEOUT_MS
  const folder = dirname(path)
  const temporary = `${path}.${randomBytes(6).toString('hex')}`
  if (Buffer.byteLength(temporary) > MAX_PATH_BYTES) {
    throw new SessionFileError(`${path} is too long a path for a lock; at most ${MAX_PATH_BYTES - 13} bytes`)
  }
  for (;;) {
    const highest = (await numbers(path)).at(-1) ?? 0
    if (highest > 0 && (await waitWhileHeld(`${path}-${highest}`, deadline))) continue
    const socket = new ListeningSocket()
    try {
      await socket.listen(temporary)
      if (!(await linked(temporary, `${path}-${highest + 1}`))) continue
      await rm(temporary, { force: true })
      const known = await numbers(path)
      if (known.at(-1) !== highest + 1) continue
      await Promise.all(known.slice(0, -1).map(number => rm(join(folder, `${basename(path)}-${number}`), { force: true })))
      return await action()
    } finally {
      await rm(temporary, { force: true })
      await socket.close()
    }
  }
}

/** The numbers of a lock's sockets, in order. */
async function numbers(path: string): Promise<number[]> {
  const start = `${basename(path)}-`
  const names = (await readdir(dirname(path))).filter(name => name.startsWith(start))
  const found = names.map(name => Number(name.slice(start.length))).filter(Number.isSafeInteger)
  return found.sort((a, b) => a - b)
}

/** Whether the name was free, and is now one of the socket. */
async function linked(existing: string, name: string): Promise<boolean> {
  try {
    await link(existing, name)
    return true
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false
    throw error
  }
}

/** Waits until the holder closes its socket; `false` if there was no holder. */
async function waitWhileHeld(path: string, deadline: number): Promise<boolean> {
  return await new Promise((resolve, reject) => {
    const connection = net.connect({ path })
    let wasHeld = false
    const timer = setTimeout(() => {
      connection.destroy()
      reject(new SessionBusy('another process has been refreshing the session for 30 seconds'))
    }, Math.max(deadline - Date.now(), 1))
    connection.on('connect', () => { wasHeld = true })
    connection.on('error', error => {
      // Reset: the holder exited. Again: it has too many waiting connections. Neither says that the lock is free.
      if (hasCode(error, 'ECONNRESET') || hasCode(error, 'EAGAIN')) wasHeld = true
      else if (!hasCode(error, 'ECONNREFUSED') && !hasCode(error, 'ENOENT')) reject(error)
    })
    connection.on('close', () => {
      clearTimeout(timer)
      resolve(wasHeld)
    })
    connection.resume()
  })
}

class ListeningSocket {
  readonly #server = net.createServer(connection => {
    this.#connections.add(connection)
    connection.on('error', () => {})
    connection.on('close', () => this.#connections.delete(connection))
  })
  readonly #connections = new Set<net.Socket>()

  async listen(path: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen({ path }, resolve)
    })
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return
    await new Promise<void>(resolve => {
      this.#server.close(() => resolve())
      for (const connection of this.#connections) connection.destroy()
    })
  }
}

/** Whether an error of the operating system has this code. */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
