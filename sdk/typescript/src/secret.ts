// Text that must not be printed.
import { inspect } from 'node:util'

/** A token. Its text is returned by `expose()` and by nothing else: string conversion, JSON and `console.log` show a placeholder. */
export class Secret {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  /** Returns the text, for the header or the file that it belongs to. */
  expose(): string {
    return this.#text
  }

  equals(other: Secret): boolean {
    return this.#text === other.#text
  }

  toString(): string {
    return 'Secret(…)'
  }

  toJSON(): string {
    return this.toString()
  }

  [inspect.custom](): string {
    return this.toString()
  }
}
