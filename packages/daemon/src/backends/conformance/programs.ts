// Programs that people run, from the host's /usr: they ask more of a machine than a shell does. All share one machine.
import { spawn } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { Backend } from '../backend.ts'
import { type Box, boxOf, type Check, type Subject, specOf, startsInTime } from './subject.ts'
import { TRUST_NEEDS } from './trust.ts'

const REPOSITORY = fileURLToPath(new URL('../../../../../', import.meta.url))
const ADDON = 'node_modules/better-sqlite3'
/** The first start of a large program can take half a minute. */
const RUN_MS = 50_000

interface Program {
  /** Names in /usr/bin or /usr/local/bin. */
  readonly needs: readonly string[]
  run(box: Box, backend: Backend): Promise<void>
}

const TABLE: Record<string, Program> = {
  'gcc builds a program, and it creates threads': {
    needs: ['gcc'],
    run: box => prints(box, `${file('sum.c', SUM_C)}; gcc -pthread -o sum sum.c && ./sum`, 'sum 28'),
  },
  'xz compresses in four threads': {
    needs: ['xz'],
    run: box => prints(box, 'head -c 4000000 /dev/zero | xz -T4 --block-size=1MiB | xz -dc | wc -c', '4000000'),
  },
  'node runs a worker thread and a child process': {
    needs: ['node'],
    run: box => prints(box, `${file('work.js', WORK_JS)}; node work.js | sort`, '42\nchild'),
  },
  'java prints its version and runs threads': {
    needs: ['java', 'javac'],
    run: async (box, backend) => {
      const { output } = await box.run('java -XshowSettings:system -version', RUN_MS)
      expect(output).toMatch(/(openjdk|java) version/)
      // Java looks for its limits in /proc and /sys, and must not mind that they are hidden.
      expect(output).not.toContain('Exception')
      // A compiler takes half a minute on an emulated processor. To say its version, Java starts a dozen threads.
      if (backend.name !== 'microvm') await prints(box, `${file('Sum.java', SUM_JAVA)}; java Sum.java`, 'sum 6')
    },
  },
  'python runs threads, a pool of processes and asyncio subprocesses': {
    needs: ['python3'],
    run: box => prints(box, `${file('many.py', MANY_PY)}; python3 many.py`, '[0, 1, 2, 3]\n[0, 1, 4, 9]\nchild'),
  },
  'git clones a local repository': {
    needs: ['git'],
    run: box => prints(box, CLONE, 'content\nfirst'),
  },
  'go builds a program, and it runs': {
    needs: ['go'],
    run: box => prints(box, `${file('hello.go', HELLO_GO)}; CGO_ENABLED=0 go build hello.go && ./hello`, 'hello from go'),
  },
  'sqlite keeps a database with a write-ahead log': {
    needs: ['sqlite3', 'python3'],
    run: box => prints(box, SQLITE, 'wal\n6\n3'),
  },
  'a client fetches a page from an HTTP server in the same machine': {
    needs: ['python3', 'curl'],
    run: box => prints(box, SERVE, 'served'),
  },
  'an npm package with a native addon loads': {
    needs: [],
    run: async box => {
      const addon = ['package.json', 'lib', `prebuilds/${process.platform}-${process.arch}.node`]
      const node = realpathSync(process.execPath)
      const parts = ['-C', dirname(node), basename(node), '-C', REPOSITORY, ...addon.map(part => `${ADDON}/${part}`)]
      const tar = spawn('tar', ['-c', ...parts], { stdio: ['ignore', 'pipe', 'inherit'] })
      await prints(box, 'true', '')
      await (await box.link.stream('archive.put', { path: '/home/sandbox/program' })).upload(tar.stdout)
      await prints(box, `${file('addon.js', ADDON_JS)}; ./${basename(node)} addon.js`, '42')
    },
  },
  'headless Chromium runs the script of a page': {
    needs: ['chromium'],
    run: box =>
      prints(
        box,
        `${file('page.html', PAGE)}; ${CHROMIUM} --dump-dom file://$PWD/page.html 2>/dev/null | grep -o "<p.*</p>"`,
        PAINTED,
      ),
  },
}

export const PROGRAMS: Record<string, Check> = Object.fromEntries(
  Object.entries(TABLE).map(([title, { run }]) => [
    title,
    async (backend: Backend, subject: Subject) => run(await sharedBox(backend, subject), backend),
  ]),
)

/** The checks that this host cannot run, with what it lacks. */
export function missingPrograms(): Record<string, string> {
  const isThere = (name: string) => ['/usr/bin', '/usr/local/bin'].some(folder => existsSync(join(folder, name)))
  const needed = { ...Object.fromEntries(Object.entries(TABLE).map(([title, { needs }]) => [title, needs])), ...TRUST_NEEDS }
  return Object.fromEntries(
    Object.entries(needed).flatMap(([title, needs]) => {
      const missing = needs.filter(name => !isThere(name))
      return missing.length === 0 ? [] : [[title, `this host has no ${missing.join(' and no ')} in /usr`]]
    }),
  )
}

const shared = new WeakMap<Backend, Promise<Box>>()

/** Starts with the first check and ends with the suite, which discards what is left. */
function sharedBox(backend: Backend, subject: Subject): Promise<Box> {
  const start = async () => {
    const spec = specOf(subject, { pidsLimit: 256 })
    return boxOf(await backend.start(spec, startsInTime(subject)), spec, subject)
  }
  const box = shared.get(backend) ?? start()
  shared.set(backend, box)
  return box
}

async function prints(box: Box, command: string, output: string): Promise<void> {
  expect((await box.run(`mkdir -p ~/program && cd ~/program && { ${command}; }`, RUN_MS)).output).toBe(output)
}

const file = (name: string, text: string) => `cat > ${name} <<'END'\n${text}\nEND\n:`

const SUM_C = `
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int sum;
static void *add(void *n) {
  pthread_mutex_lock(&mutex);
  sum += *(int *)n;
  pthread_mutex_unlock(&mutex);
  return 0;
}
int main(void) {
  pthread_t threads[8];
  int numbers[8];
  for (int i = 0; i < 8; i++) {
    numbers[i] = i;
    if (pthread_create(&threads[i], 0, add, &numbers[i])) return 1;
  }
  for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
  printf("sum %d\\n", sum);
}`

const WORK_JS = `
const { Worker } = require('node:worker_threads')
const { execFile } = require('node:child_process')
const answer = "require('node:worker_threads').parentPort.postMessage(6 * 7)"
new Worker(answer, { eval: true }).on('message', number => console.log(String(number)))
execFile('echo', ['child'], (error, output) => process.stdout.write(error ? String(error) : output))`

const SUM_JAVA = `
public class Sum {
  static int sum;
  static synchronized void add(int n) { sum += n; }
  public static void main(String[] args) throws InterruptedException {
    Thread[] threads = new Thread[4];
    for (int i = 0; i < 4; i++) {
      int n = i;
      threads[i] = new Thread(() -> add(n));
      threads[i].start();
    }
    for (Thread thread : threads) thread.join();
    System.out.println("sum " + sum);
  }
}`

const MANY_PY = `
import asyncio, multiprocessing, threading

def square(n):
    return n * n

async def child():
    process = await asyncio.create_subprocess_exec("echo", "child", stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0].decode().strip()

seen = []
threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(seen))
with multiprocessing.Pool(2) as pool:
    print(pool.map(square, range(4)))
print(asyncio.run(child()))`

const HELLO_GO = `
package main

func main() {
	done := make(chan string)
	go func() { done <- "hello from go" }()
	print(<-done)
}`

const CLONE = [
  'export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@example.com GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@example.com',
  'git init -q one && echo content > one/f && git -C one add f && git -C one commit -qm first',
  'git clone -q one two && cat two/f && git -C two --no-pager log --format=%s',
].join('; ')

const SQLITE = [
  'sqlite3 s.db "pragma journal_mode=wal; create table t(n); insert into t values (1), (2), (3); select sum(n) from t"',
  'python3 -c \'import sqlite3; print(sqlite3.connect("s.db").execute("select count(*) from t").fetchone()[0])\'',
].join('; ')

const SERVE = [
  'mkdir -p served && echo served > served/page',
  '{ python3 -m http.server 8123 --bind 127.0.0.1 --directory served >log 2>&1 & }',
  'until curl -fs http://localhost:8123/page; do sleep 0.05; done',
  'kill $!',
].join('; ')

const ADDON_JS = `
const Database = require('better-sqlite3')
console.log(String(new Database('addon.db').prepare('select 6 * 7 as answer').get().answer))`

const CHROMIUM = 'chromium --headless --no-sandbox --disable-gpu --user-data-dir=/tmp/chromium'
const PAGE = '<!doctype html><p id="p">before</p><script>p.textContent = [1, 2, 3].map(n => n * n).join()</script>'
const PAINTED = '<p id="p">1,4,9</p>'
