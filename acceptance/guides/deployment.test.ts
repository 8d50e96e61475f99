/**
 * The configuration of nginx in docs/operations/deployment.md, and the unit for systemd. Where these programs are
 * installed they read the texts, and nginx runs with them in front of a platform; elsewhere those tests are skipped, and
 * what the texts say is looked at all the same.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { io } from 'socket.io-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApi } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { findOnPath } from '../../test/support/servers/find-program.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { projectRoot } from '../routes.ts';

const [nginx, systemdAnalyze] = await Promise.all([
  findOnPath('nginx'),
  findOnPath('systemd-analyze'),
]);

async function nginxText(): Promise<string> {
  const text = await readFile(join(projectRoot, 'docs/operations/deployment.md'), 'utf8');
  return /^```nginx\n([\s\S]*?)^```$/m.exec(text)?.[1] ?? '';
}

describe('nginx', () => {
  let platform: TestPlatform;
  let folder: string;
  let origin: string;
  let stop: () => Promise<void> = async () => undefined;

  beforeAll(async () => {
    if (nginx === undefined) return;
    platform = await createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
    folder = await temporaryFolder('nginx');
    const port = await freePort();
    origin = `http://127.0.0.1:${port}`;
    const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${folder}/${name};`,
    );
    const { host } = new URL(platform.addresses.client);
    const shown = (await nginxText())
      .replace('127.0.0.1:3000', host)
      .replace(/^.*127\.0\.0\.1:4000.*\n/m, '')
      .replace('server {\n  location', `server {\n  listen 127.0.0.1:${port};\n  location`);
    // Its workers keep uploads in our folder, which a root gives to nobody else.
    const user = process.getuid?.() === 0 ? 'user root;' : '';
    const file = join(folder, 'nginx.conf');
    await writeFile(
      file,
      `daemon off; ${user} pid ${folder}/pid; events {}\nhttp { access_log off; ${paths.join(' ')}\n${shown}}`,
    );
    const log = join(folder, 'error.log');
    await promisify(execFile)(nginx, ['-t', '-c', file, '-e', log]);
    const child = spawn(nginx, ['-c', file, '-e', log], { stdio: 'ignore' });
    stop = async () => {
      const gone = once(child, 'exit');
      child.kill('SIGTERM');
      await gone;
    };
    await waitFor(
      () =>
        fetch(`${origin}/live`).then(
          ({ ok }) => ok,
          () => false,
        ),
      {
        what: 'nginx',
      },
    );
  });
  afterAll(async () => {
    await stop();
    await platform?.close();
    if (folder) await removeFolder(folder);
  });

  it('closes each bracket and ends each line', async () => {
    const text = (await nginxText()).replace(/ *#.*$/gm, '').trim();
    expect(text.split('{').length).toBe(text.split('}').length);
    for (const line of text.split('\n').filter((one) => one.trim() !== ''))
      expect(line).toMatch(/[;{}]$/);
    expect(text).toContain('proxy_next_upstream error non_idempotent');
  });

  it.skipIf(nginx === undefined)('passes calls on, with the addresses of callers', async () => {
    const { email, password } = await platform.registerUser();
    const api = createApi(origin);
    const signIn = (wrong: string) =>
      api.send('POST', '/authentication/local', { email, password: password + wrong });
    expect((await signIn('')).status).toBe(200);
    expect((await api.get('/no-such-route')).status).toBe(404);
  });

  it.skipIf(nginx === undefined)('lets uploads of megabytes through', async () => {
    const { accessToken } = await platform.registerUser();
    const body = new FormData();
    body.append('file', new Blob([new Uint8Array(3_000_000)]), 'large.bin');
    const headers = { authorization: `Bearer ${accessToken}` };
    const answer = await fetch(`${origin}/storage/upload`, { method: 'POST', headers, body });
    expect([answer.status, await answer.text()]).toEqual([
      200,
      expect.stringContaining('"size":3000000'),
    ]);
  });

  it.skipIf(nginx === undefined)('lets sockets through to the client port', async () => {
    const socket = io(`${origin}/database/`, { path: '/realtime', transports: ['websocket'] });
    const heard = await new Promise<string>((resolve) => {
      socket.once('connect', () => resolve('connected'));
      socket.once('connect_error', ({ message }) => resolve(message));
    });
    socket.close();
    expect(heard).not.toBe('websocket error');
  });
});

describe('the unit for systemd', () => {
  const file = join(projectRoot, 'deploy/systemd/penstock.service');

  it('starts what there is, and gives a stop its time', async () => {
    const text = await readFile(file, 'utf8');
    const values = new Map(
      [...text.matchAll(/^(\w+)=(.*)$/gm)].map(([, key = '', value = '']) => [key, value]),
    );
    const program = values.get('ExecStart')?.replace('/opt/penstock/', '').split(' ').at(-2);
    expect(program).toBe('bin/penstock.mjs');
    await readFile(join(projectRoot, program ?? ''));
    const environment = await readFile(join(projectRoot, 'docs/reference/environment.md'), 'utf8');
    for (const [, name = ''] of text.matchAll(/\b([A-Z]+(?:_[A-Z]+)+)\b/g))
      expect(environment).toContain(name);
    const seconds = Number(values.get('TimeoutStopSec'));
    expect(seconds).toBeGreaterThan(3 + 35);
    expect(values.get('KillMode')).toBe('mixed');
  });

  it.skipIf(systemdAnalyze === undefined)('is one that systemd reads', async () => {
    const run = promisify(execFile)(systemdAnalyze ?? '', ['verify', '--man=no', file]);
    const said = await run.then(
      ({ stderr }) => stderr,
      ({ stderr }: { stderr: string }) => stderr,
    );
    // The user and the folder of the unit are not on this machine; what it does not understand, it names.
    expect(said).not.toMatch(
      /penstock\.service:.*(?:Unknown|Failed to parse|Invalid|not absolute)/i,
    );
  });
});
