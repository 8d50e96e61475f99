/**
 * Two nodes behind nginx are replaced one after the other under load: no client loses a connection, and
 * everything acknowledged is stored once. Short here; PENSTOCK_ROLLING_RESTARTS=10 and
 * PENSTOCK_ROLLING_CLIENTS=200 for the long form.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import pg from 'pg';
import { expect, it } from 'vitest';
import { createTestDatabase } from '../../test/support/database.ts';
import { freePort } from '../../test/support/free-port.ts';
import { findOnPath } from '../../test/support/servers/find-program.ts';
import { type SpawnedPlatform, spawnPlatform } from '../../test/support/spawn.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const restarts = Number(process.env.PENSTOCK_ROLLING_RESTARTS ?? 2);
const clients = Number(process.env.PENSTOCK_ROLLING_CLIENTS ?? 50);
const nginx = await findOnPath('nginx');

const configuration = (folder: string, port: number, upstreams: readonly string[]): string => `
daemon off; pid ${folder}/pid; error_log ${folder}/error.log; worker_processes 1;
events { worker_connections 2048; }
http {
  access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  upstream nodes { ${upstreams.map((address) => `server ${address} max_fails=0;`).join(' ')} keepalive 256; }
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://nodes; proxy_http_version 1.1; proxy_set_header Connection "";
      # A connection that waited at a closing port was never read: the other node takes the request.
      proxy_next_upstream error non_idempotent; }
  }
}`;

async function startNginx(program: string, upstreams: readonly string[]) {
  const folder = await temporaryFolder('nginx');
  const port = await freePort();
  await writeFile(join(folder, 'nginx.conf'), configuration(folder, port, upstreams));
  const child = spawn(
    program,
    ['-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')],
    { stdio: 'ignore' },
  );
  return {
    port,
    async stop() {
      const gone = once(child, 'exit');
      child.kill('SIGTERM');
      await gone;
      await removeFolder(folder);
    },
  };
}

const agent = new Agent({ keepAlive: true, maxSockets: clients });

/** The status of one write; 0 when the connection was cut. The key lets a proxy send it twice. */
const write = (port: number, mark: string, token: string): Promise<number> =>
  new Promise((resolve) => {
    const body = JSON.stringify({ mark });
    const headers = {
      'content-type': 'application/json',
      'content-length': body.length,
      authorization: `Bearer ${token}`,
      'idempotency-key': mark,
    };
    const sent = request(
      { agent, host: '127.0.0.1', port, path: '/database/Rolled', method: 'POST', headers },
      (response) => {
        response.resume().once('end', () => resolve(response.statusCode ?? 0));
      },
    );
    sent.once('error', () => resolve(0));
    sent.end(body);
  });

it.skipIf(nginx === undefined && !process.env.CI)(
  `${restarts} rolling restarts cut no connection of ${clients} clients`,
  { timeout: 120_000 + restarts * 60_000 },
  async () => {
    const database = await createTestDatabase({ server: 'embedded' });
    const ports = [await freePort(), await freePort()];
    const env = (port: number) => ({
      DATABASE_URL: database.url,
      CLIENT_HTTP_PORT: String(port),
      CLIENT_SOCKET_PORT: '-1',
      TRUSTED_PROXIES: '127.0.0.1',
    });
    const nodes: SpawnedPlatform[] = [];
    const proxy = await startNginx(
      nginx ?? 'nginx',
      ports.map((port) => `127.0.0.1:${port}`),
    );
    try {
      for (const port of ports) nodes.push(await spawnPlatform({ env: env(port) }));
      await nodes[0]?.admin.patch('/config/router', {
        config: { rateLimit: { maxRequests: 100_000, resetInterval: 1 } },
      });
      await nodes[0]?.createSchema({
        name: 'Rolled',
        fields: { mark: { type: 'String', required: true, unique: true } },
      });
      const user = await nodes[0]?.registerUser();
      const token = user?.accessToken ?? '';
      const statuses = new Map<number, number>();
      const acknowledged: string[] = [];
      let done = false;
      const client = async (): Promise<void> => {
        while (!done) {
          const mark = randomUUID();
          const status = await write(proxy.port, mark, token);
          if (status === 200) acknowledged.push(mark);
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
        }
      };
      const load = Array.from({ length: clients }, client);
      await waitFor(() => (statuses.get(200) ?? 0) > clients, { timeoutMs: 30_000, what: 'load' });
      for (let round = 0; round < restarts; round += 1) {
        const at = round % 2;
        expect((await nodes[at]?.stop())?.code).toBe(0);
        await nodes[at]?.dispose();
        nodes[at] = await spawnPlatform({ env: env(ports[at] ?? 0) });
      }
      done = true;
      await Promise.all(load);
      const stored = new pg.Client({ connectionString: database.url });
      await stored.connect();
      const { rows } = await stored.query('select mark from app."Rolled"');
      await stored.end();
      const kept = new Set(rows.map(({ mark }) => mark));
      expect(acknowledged.filter((mark) => !kept.has(mark))).toEqual([]);
      expect(kept.size).toBe(rows.length);
      expect(Object.fromEntries(statuses)).toEqual({ 200: statuses.get(200) });
    } finally {
      await Promise.all(nodes.map((node) => node.dispose()));
      await proxy.stop();
      agent.destroy();
      await database.drop();
    }
  },
);
