// What both products for Node.js share: connections to PostgreSQL, and the version of an installed package.
import fs from 'node:fs'
import pg from 'pg'

// For each of two workers. Together as many as `database.connections` of our server in the same measurement.
const CONNECTIONS = 16

export const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: CONNECTIONS })

export function versionOf(name) {
  const file = new URL(`./node_modules/${name}/package.json`, import.meta.url)
  return JSON.parse(fs.readFileSync(file, 'utf8')).version
}
