import { usage } from '../parse.ts'

/** What --user says. */
export function userFrom(given: string | undefined): 'sandbox' | 'root' | undefined {
  if (given === undefined || given === 'sandbox' || given === 'root') return given
  throw usage(`--user is sandbox or root, not ${given}`)
}
