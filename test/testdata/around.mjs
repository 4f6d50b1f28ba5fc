// Runs the public unblockers, each under a host of its own, behind one port for HTTP and one for TLS. It
// plays the part of the internet: a server that an unblocker connects to is the page below, whatever its
// name. Arguments: a folder with packages of npm, a folder for files, a certificate and its key in PEM.
// Prints its two ports as JSON.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import dns from 'node:dns';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [packages, scratch, certificate, key] = process.argv.slice(2);
process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
process.chdir(scratch);
const require = createRequire(path.join(packages, 'package.json'));
const say = console.log;
console.log = console.info = console.warn = console.error = () => {};
process.on('uncaughtException', () => {}); // of a client that went away, in a package
process.on('unhandledRejection', () => {});
const load = name => import(pathToFileURL(require.resolve(name)));
const tls = { cert: fs.readFileSync(certificate), key: fs.readFileSync(key) };

// The page that a list refuses.
const line = 'LISTED: this line belongs to a page that a list refuses, and nobody may read it here.';
const page = '<!doctype html><title>Listed</title><body>' + Array.from({ length: 40 }, (_, i) => `<p>${line} ${i}</p>\n`).join('');
const { WebSocketServer } = require('ws');
const sockets = new WebSocketServer({ noServer: true });
const serve = (_, res) => res.writeHead(200, { 'Content-Type': 'text/html', Connection: 'close' }).end(page);
const upgrade = (req, socket, head) => sockets.handleUpgrade(req, socket, head, ws => { ws.on('message', () => ws.send(page)); ws.send(page); });
const pages = { 80: http.createServer(serve).on('upgrade', upgrade), 443: https.createServer(tls, serve).on('upgrade', upgrade) };
const listen = server => new Promise(ok => server.listen(0, '127.0.0.1', () => ok(server.address().port)));
const ports = { 80: await listen(pages[80]), 443: await listen(pages[443]) };

// Every name is of this machine, and the ports 80 and 443 are those of the page.
const lookup = dns.lookup, connect = net.Socket.prototype.connect;
dns.lookup = (host, options, done) => {
  done ??= options;
  if (net.isIP(host) || host === 'localhost') return lookup(host, typeof options === 'function' ? {} : options, done);
  options?.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4);
};
dns.promises.lookup = async (_, options) => options?.all ? [{ address: '127.0.0.1', family: 4 }] : { address: '127.0.0.1', family: 4 };
dns.promises.resolve4 = dns.promises.resolve = async () => ['127.0.0.1'];
net.Socket.prototype.connect = function (...args) {
  const a = Array.isArray(args[0]) ? args[0] : args; // as net.connect hands them on
  const port = p => ports[p] ?? p;
  if (typeof a[0] === 'object' && a[0] !== null) a[0] = { ...a[0], host: '127.0.0.1', port: port(a[0].port) };
  else { a[0] = port(a[0]); if (typeof a[1] === 'string') a[1] = '127.0.0.1'; }
  return connect.apply(this, args);
};

const tools = {}; // host: { request, upgrade }
const failed = {};
async function tool(host, make) {
  try { tools[host] = await make(); } catch (e) { failed[host] = String(e); }
}

const bareOf = directory => async () => {
  const { createBareServer } = await load('@tomphttp/bare-server-node');
  const s = createBareServer(directory, { blockLocal: false, filterRemote: null, connectionLimiter: { maxConnectionsPerIP: 1e6, windowDuration: 1, blockDuration: 1 } });
  return { request: (q, s2) => s.routeRequest(q, s2), upgrade: (...a) => s.routeUpgrade(...a) };
};
await tool('bare.test', bareOf('/bare/'));
await tool('files.test', bareOf('/'));
await tool('nebula.test', async () => {
  const { createBareServer } = require('@nebula-services/bare-server-node');
  const s = createBareServer('/b/', { blockLocal: false });
  return { request: (q, s2) => s.routeRequest(q, s2), upgrade: (...a) => s.routeUpgrade(...a) };
});
await tool('wisp.test', async () => {
  const { server } = await import(pathToFileURL(path.join(packages, 'node_modules/@mercuryworkshop/wisp-js/src/entrypoints/server.mjs')));
  Object.assign(server.options, { allow_loopback_ips: true, allow_private_ips: true });
  return { upgrade: (...a) => server.routeRequest(...a) };
});
await tool('wispnode.test', async () => {
  const wisp = require('wisp-server-node');
  return { upgrade: (q, s, h) => (wisp.server ?? wisp.default ?? wisp).routeRequest(q, s, h, { logLevel: 4 }) };
});
for (const codec of ['plain', 'xor', 'base64'])
  await tool(`corrosion-${codec}.test`, async () => {
    const file = path.join(path.dirname(require.resolve('corrosion')), 'bundle.js'); // otherwise it starts webpack
    if (!fs.existsSync(file)) fs.writeFileSync(file, '');
    const Corrosion = require('corrosion');
    const s = new Corrosion({ codec, prefix: '/service/', requestMiddleware: [], responseMiddleware: [] });
    return { request: (q, r) => s.request(q, r), upgrade: (...a) => s.upgrade(...a) };
  });
await tool('alloy.test', async () => {
  const Alloy = require('alloyproxy');
  const s = new Alloy({ prefix: '/get/', request: [], response: [], injection: true });
  const ws = http.createServer();
  s.ws(ws);
  return { request: (q, r) => s.app(q, r), upgrade: (...a) => ws.emit('upgrade', ...a) };
});
await tool('unblocker.test', async () => {
  const Unblocker = require('unblocker');
  const s = new Unblocker({ prefix: '/proxy/' });
  return { request: (q, r) => s(q, r, () => r.writeHead(404).end()), upgrade: (...a) => s.onUpgrade(...a) };
});
await tool('rammerhead.test', async () => {
  for (const dir of ['cache-js', 'sessions', 'public']) fs.mkdirSync(path.join(packages, 'node_modules/@rubynetwork/rh', dir), { recursive: true });
  const { createRammerhead } = await load('@rubynetwork/rammerhead');
  const s = createRammerhead({ logLevel: 'disabled', reverseProxy: false, disableLocalStorageSync: true, disableHttp2: true });
  return { request: (q, r) => s.emit('request', q, r), upgrade: (...a) => s.emit('upgrade', ...a) };
});
await tool('wstunnel.test', async () => {
  const Server = require('wstunnel/lib/WstServer.js');
  const s = new Server();
  await new Promise(ok => s.start('127.0.0.1:0', ok));
  return { request: (q, r) => s.httpServer.emit('request', q, r), upgrade: (...a) => s.httpServer.emit('upgrade', ...a) };
});
await tool('cors.test', async () => {
  const s = require('cors-anywhere').createServer({ httpProxyOptions: { secure: false } });
  return { request: (q, r) => s.emit('request', q, r) };
});
await tool('allorigins.test', async () => ({ request: require('allorigins/app.js') }));
await tool('wsproxy.test', async () => {
  const Proxy = require('wsproxy/src/proxy.js');
  const s = new (createRequire(require.resolve('wsproxy/src/proxy.js'))('ws').Server)({ noServer: true });
  return { upgrade: (q, socket, head) => s.handleUpgrade(q, socket, head, ws => new Proxy(ws)) };
});
// A proxy of CGI: the address is in the field u of the query or of a form, in the coding that the path names.
const decoded = {
  plain: s => s,
  base64: s => Buffer.from(s, 'base64').toString(),
  pieces: s => Buffer.from(s.replaceAll('/', ''), 'base64').toString(),
  reversed: s => [...s].reverse().join(''),
  hex: s => Buffer.from(s, 'hex').toString(),
  rot13: s => s.replace(/[a-z]/gi, c => String.fromCharCode((c = c.charCodeAt(0)) + ((c & 31) < 14 ? 13 : -13))),
  codes: s => String.fromCharCode(...s.split(',')),
  xor: s => Buffer.from(s, 'base64').map((c, i) => c ^ 'key'.charCodeAt(i % 3)).toString(),
};
await tool('cgi.test', async () => ({
  request: async (q, r) => {
    const url = new URL(q.url, 'http://cgi.test/'), body = [];
    for await (const p of q) body.push(p);
    const form = Buffer.concat(body).toString();
    let u = url.searchParams.get('u') ?? url.pathname.split('/').slice(2).join('/');
    if (form.startsWith('{')) u = JSON.parse(form).u;
    else if (form.startsWith('--')) u = form.split('\r\n\r\n')[1].split('\r\n')[0];
    else if (form) u = new URLSearchParams(form).get('u');
    u = decoded[url.pathname.split('/')[1]](u);
    if (!u.startsWith('http')) u = 'http' + u;
    (u.startsWith('https') ? https : http).get(u, s => s.pipe(r)).on('error', () => r.destroy());
  },
}));

const of = q => tools[(q.headers.host ?? '').split(':')[0]];
const front = s => s
  .on('request', (q, r) => of(q)?.request ? of(q).request(q, r) : r.writeHead(404).end())
  .on('upgrade', (q, s, h) => { s.on('error', () => {}); of(q)?.upgrade ? of(q).upgrade(q, s, h) : s.destroy(); });
say(JSON.stringify({ http: await listen(front(http.createServer())), https: await listen(front(https.createServer(tls))), failed }));
process.stdin.on('end', () => process.exit(0)).resume();
