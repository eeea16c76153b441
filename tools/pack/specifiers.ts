// The module specifiers in emitted code and declarations, which the compiler writes in a few known forms.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'

const SPECIFIER = /(^(?:import|export)\b(?:[^'"();=]*?\bfrom)?\s*|\bimport\(\s*)(['"])([^'"\n]+)\2/gm

export function specifiersIn(text: string): string[] {
  return [...text.matchAll(SPECIFIER)].map(match => match[3] ?? '')
}

export function withSpecifiers(text: string, change: (specifier: string) => string): string {
  return text.replaceAll(SPECIFIER, (_, before: string, quote: string, name: string) => before + quote + change(name) + quote)
}

/** Every file below a folder. */
export function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))
}
