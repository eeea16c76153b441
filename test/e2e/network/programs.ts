// Programs that use the network without knowing of Sandglass, each as one command line and what it prints. They run unmodified in a session.
import { API } from './upstream.ts'

const URL = `https://${API}`

export interface Program {
  readonly title: string
  readonly cmd: string
  /** The output matches this. */
  readonly prints: RegExp
  /** Too slow where every instruction is emulated. */
  readonly slow?: true
}

const python = (source: string) => `/usr/bin/python3 - <<'END'\n${source}\nEND`
const node = (source: string) => `node --input-type=module - <<'END'\n${source}\nEND`

export const PROGRAMS: readonly Program[] = [
  { title: 'curl over HTTP/2', cmd: `curl -sS ${URL}/curl`, prints: /^2\.0 GET api\.upstream\.example \/curl/ },
  { title: 'curl over HTTP/1.1', cmd: `curl -sS --http1.1 ${URL}/curl`, prints: /^1\.1 GET api\.upstream\.example \/curl/ },
  { title: 'curl over plain HTTP', cmd: `curl -sS http://${API}/plain`, prints: /^1\.1 GET api\.upstream\.example \/plain/ },
  {
    title: 'curl with HTTPS_PROXY',
    cmd: `HTTPS_PROXY=http://127.0.0.53:3128 curl -sS ${URL}/proxied`,
    prints: /GET api\.upstream\.example \/proxied/,
  },
  {
    title: 'curl with HTTP_PROXY',
    cmd: `http_proxy=http://127.0.0.53:3128 curl -sS http://${API}/proxied`,
    prints: /GET api\.upstream\.example \/proxied/,
  },
  {
    title: 'curl with SOCKS5',
    cmd: `curl -sS --socks5-hostname 127.0.0.53:1080 ${URL}/socks`,
    prints: /GET api\.upstream\.example \/socks/,
  },
  {
    title: 'curl with a cleared environment',
    cmd: `env -i /usr/bin/curl -sS ${URL}/bare`,
    prints: /GET api\.upstream\.example \/bare/,
  },
  { title: 'wget', cmd: `wget -qO- ${URL}/wget`, prints: /GET api\.upstream\.example \/wget/ },
  {
    title: 'git clone and push over https',
    cmd: `cd /tmp && rm -rf project && git clone -q ${URL}/project.git && cat project/hello.txt && cd project &&
      git checkout -qb "$RANDOM$RANDOM" && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m more && git push -q origin HEAD && echo pushed`,
    prints: /hello from the repository[\s\S]*pushed/,
  },
  {
    title: 'fetch of Node',
    cmd: node(`console.log(await (await fetch('${URL}/node')).text())`),
    prints: /GET api\.upstream\.example \/node/,
  },
  {
    title: 'urllib of Python',
    cmd: python(`import urllib.request\nprint(urllib.request.urlopen('${URL}/urllib').read().decode())`),
    prints: /GET api\.upstream\.example \/urllib/,
  },
  {
    title: 'urllib of Python with a cleared environment',
    cmd: `env -i /usr/bin/python3 -c "import urllib.request; print(urllib.request.urlopen('${URL}/bare').read().decode())"`,
    prints: /GET api\.upstream\.example \/bare/,
  },
  {
    title: 'requests of Python',
    cmd: python(`import requests\nprint(requests.get('${URL}/requests').text)`),
    prints: /GET api\.upstream\.example \/requests/,
  },
  {
    title: 'aiohttp of Python',
    cmd: python(
      `import asyncio, aiohttp\nasync def main():\n  async with aiohttp.ClientSession() as s:\n    async with s.get('${URL}/aiohttp') as r: print(await r.text())\nasyncio.run(main())`,
    ),
    prints: /GET api\.upstream\.example \/aiohttp/,
    slow: true,
  },
  {
    title: 'pip',
    cmd: `/usr/bin/pip3 install -q --target /tmp/pip --index-url ${URL}/simple demo-package 2>&1; PYTHONPATH=/tmp/pip /usr/bin/python3 -c 'import demo_package'`,
    prints: /a package from the index/,
    slow: true,
  },
  {
    title: 'a Go program',
    cmd: `mkdir -p /tmp/go && cd /tmp/go && cat > main.go <<'END'
package main
import ("fmt"; "io"; "net/http")
func main() { r, err := http.Get("${URL}/go"); if err != nil { panic(err) }; b, _ := io.ReadAll(r.Body); fmt.Print(string(b)) }
END
GOCACHE=/workspace/cache GO111MODULE=off CGO_ENABLED=0 go run main.go`,
    prints: /GET api\.upstream\.example \/go/,
    slow: true,
  },
  {
    title: 'a Java program',
    cmd: `cd /tmp && cat > Get.java <<'END'
import java.net.URI; import java.net.http.*;
public class Get { public static void main(String[] a) throws Exception {
  System.out.println(HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create("${URL}/java")).build(), HttpResponse.BodyHandlers.ofString()).body()); } }
END
java Get.java`,
    prints: /GET api\.upstream\.example \/java/,
    slow: true,
  },
  {
    title: 'a WebSocket',
    cmd: python(
      `import asyncio, websockets\nasync def main():\n  async with websockets.connect('wss://${API}/socket') as s:\n    await s.send('hello'); print(await s.recv())\nasyncio.run(main())`,
    ),
    prints: /echo hello/,
  },
  { title: 'server-sent events', cmd: `curl -sSN ${URL}/events`, prints: /data: one\s+data: two\s+data: three/ },
  {
    title: 'an upload of 8 MiB',
    cmd: `head -c 8388608 /dev/zero | curl -sS -T - ${URL}/upload`,
    prints: /^8388608 2daeb1f36095b44b318410b3f4e8b5d989dcc7bb023d1426c492dab0a3053e74/,
  },
  { title: 'a download of 8 MiB', cmd: `curl -sS '${URL}/download?bytes=8388608' | wc -c`, prints: /^8388608/ },
]
