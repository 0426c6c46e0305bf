// The file that keeps a session: readable by its owner only, replaced atomically, and guarded by a lock between processes.
import { constants } from 'node:fs'
import { chmod, lstat, mkdir, open, rename, rm } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { SessionFileError } from './errors.js'
import { hasCode, withLock } from './lock.js'
import { Secret } from './secret.js'

const FORMAT = 'service-sdk-typescript/1'

/** The tokens of a session, with the service and the OAuth client that they belong to. */
export interface Tokens {
  issuer: string
  clientId: string
  accessToken: Secret
  /** In milliseconds since 1970. */
  expiresAt: number
  refreshToken: Secret
}

/** A session on disk. Processes that share it see each other's refreshes. */
export class SessionFile {
  readonly path: string

  constructor(path: string) {
    this.path = resolve(path)
  }

  /** The tokens, or `undefined` if there are none. A file that other users could read is made private. */
  async read(): Promise<Tokens | undefined> {
    const text = await this.#readText()
    if (text === undefined) return undefined
    const kept = parse(text)
    if (kept === undefined) throw new SessionFileError(`${this.path} is not a session of this library; delete it and sign in again`)
    return {
      issuer: kept.issuer,
      clientId: kept.client_id,
      accessToken: new Secret(kept.access_token),
      expiresAt: kept.expires_at,
      refreshToken: new Secret(kept.refresh_token),
    }
  }

  /** Replaces the file. A reader sees the old or the new tokens, also after a crash. The caller holds the lock. */
  async write(tokens: Tokens): Promise<void> {
    const kept: Kept = {
      format: FORMAT,
      issuer: tokens.issuer,
      client_id: tokens.clientId,
      access_token: tokens.accessToken.expose(),
      expires_at: tokens.expiresAt,
      refresh_token: tokens.refreshToken.expose(),
    }
    const replacement = `${this.path}.new`
    // A process that was killed left it.
    await rm(replacement, { force: true })
    const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants
    const file = await open(replacement, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    try {
      await file.writeFile(JSON.stringify(kept))
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(replacement, this.path)
    const folder = await open(dirname(this.path))
    await folder.sync().finally(() => folder.close())
  }

  /** Deletes the file, if there is one. The caller holds the lock. */
  async delete(): Promise<void> {
    await rm(this.path, { force: true })
  }

  /** Does something while no other process uses this file. */
  async locked<T>(action: () => Promise<T>): Promise<T> {
    const folder = dirname(this.path)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const { mode } = await lstat(folder)
    if ((mode & 0o022) !== 0 && (mode & 0o1000) === 0) throw new SessionFileError(`${folder} is writable by other users`)
    const locks = `${this.path}.lock`
    await mkdir(locks, { recursive: true, mode: 0o700 })
    const found = await lstat(locks)
    if (!found.isDirectory() || found.uid !== process.geteuid?.()) throw new SessionFileError(`${locks} is not a folder of this user`)
    await chmod(locks, 0o700)
    return await withLock(`${locks}/n`, action)
  }

  async #readText(): Promise<string | undefined> {
    let file: FileHandle
    try {
      file = await open(this.path, constants.O_RDONLY | constants.O_NOFOLLOW)
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return undefined
      if (hasCode(error, 'ELOOP')) throw new SessionFileError(`${this.path} is a symbolic link`)
      throw new SessionFileError(`${this.path} cannot be read`)
    }
    try {
      const found = await file.stat()
      if (!found.isFile()) throw new SessionFileError(`${this.path} is not a file`)
      if (found.uid !== process.geteuid?.()) throw new SessionFileError(`${this.path} belongs to another user`)
      if ((found.mode & 0o077) !== 0) await file.chmod(0o600)
      return await file.readFile('utf8')
    } finally {
      await file.close()
    }
  }
}

interface Kept {
  format: typeof FORMAT
  issuer: string
  client_id: string
  access_token: string
  expires_at: number
  refresh_token: string
}

/** What a file says. The cause of a failure is dropped: it would show the text, which has tokens in it. */
function parse(text: string): Kept | undefined {
  try {
    const kept = JSON.parse(text) as Kept
    const texts = [kept.issuer, kept.client_id, kept.access_token, kept.refresh_token]
    const isSession = kept.format === FORMAT && texts.every(one => typeof one === 'string')
    return isSession && typeof kept.expires_at === 'number' ? kept : undefined
  } catch {
    return undefined
  }
}
