// A client of the service. Types and paths of the operations are generated from its OpenAPI document. This library adds what
// cannot be generated: credentials, sign-in, a session that refreshes itself, errors as exceptions, and pages.
export * from './errors.js'
export type { components, paths } from './generated.js'
export { Secret } from './secret.js'
export { Service, data, pages } from './service.js'
export { signIn, signOut } from './sign-in.js'
export type { SignInOptions } from './sign-in.js'
