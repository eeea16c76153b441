// Ids and names: their syntax, and how ids are made.

export const SESSION_ID = /^sess_[a-z0-9]{16}$/
export const SESSION_NAME = /^[a-z][a-z0-9-]{0,40}$/
export const SESSION_NAME_RULE = '1 to 41 characters of a-z, 0-9 and -, starting with a letter'
/** A shell that `exec` made for another user ends in @ and that user. */
export const SHELL_NAME = /^[a-z0-9][a-z0-9_-]{0,31}(@(root|sandbox))?$/
export const PROCESS_TAG = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$/
export const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
export const SECRET_NAME = /^[A-Za-z][A-Za-z0-9._-]{0,127}$/
export const LABEL_NAME = /^[a-z0-9][a-z0-9._/-]{0,62}$/
export const DEFAULT_SHELL = 'main'
export const DEFAULT_TEMPLATE = 'tmpl_default'

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789'

/** `prefix` + 16 random characters of a-z0-9, without modulo bias. */
export function newId(prefix: string): string {
  let id = ''
  while (id.length < 16) {
    for (const byte of crypto.getRandomValues(new Uint8Array(24))) {
      if (byte < 252 && id.length < 16) id += ALPHABET[byte % 36]
    }
  }
  return prefix + id
}
