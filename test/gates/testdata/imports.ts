// Read by the import gate's own test; never run. One of each form of import, in this order.
import { readFileSync } from 'node:fs'
import type { CpuInfo } from 'node:os'
import {
  join,
  // from 'not/an-import'
  sep,
} from 'node:path'
import './side-effect.ts'
export * from './re-export.ts'
export type Socket = import('node:net').Socket
export const text = "import 'not-an-import'"
export const load = () => import('node:http')
export const used = [readFileSync, join, sep, {} as CpuInfo]
