/** Starting and stopping, as a user sees it: the launcher as a real process, its output, its exit code. */
import { execFile, spawn as spawnProgram } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { createApi } from '../test/support/api.ts';
import { createTestDatabase } from '../test/support/database.ts';
import { freePort } from '../test/support/free-port.ts';
import { startPretendPostgres } from '../test/support/old-postgres.ts';
import { descendants, isRunning } from '../test/support/processes.ts';
import { describeWithPostgres15 } from '../test/support/servers/fixtures.ts';
import {
  launchPlatform,
  type PlatformProcess,
  projectRoot,
  type SpawnOptions,
  spawnPlatform,
  startedFolder,
} from '../test/support/spawn.ts';
import { removeFolder, temporaryFolder } from '../test/support/temporary-folder.ts';
import { waitFor } from '../test/support/wait-for.ts';

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

const spawn = async (options: SpawnOptions) => {
  const platform = await spawnPlatform(options);
  cleanUps.push(() => platform.dispose());
  return platform;
};

/** Starts what must not start, and answers what it said. */
async function failedStart(
  options: SpawnOptions,
): Promise<{ code: number | null; said: string; stdout: string }> {
  const launched: PlatformProcess = await launchPlatform(options);
  cleanUps.push(() => launched.dispose());
  const { code } = await launched.exit;
  return { code, said: launched.stderr().trim(), stdout: launched.stdout() };
}

const oneLine = (said: string) => said.split('\n').length;
const generated = { MASTER_KEY: '', ADMIN_INITIAL_PASSWORD: '' };

describe('a start on an empty data folder', { timeout: 120_000 }, () => {
  it('prints once what a newcomer needs, and keeps the secrets for the owner only', async () => {
    const dataDir = await temporaryFolder('data');
    const first = await spawn({ dataDir, env: generated });
    for (const address of Object.values(first.addresses))
      expect(first.stdout()).toContain(address.split('//')[1]);
    expect(first.stdout()).toContain(dataDir);
    expect(first.stdout()).toMatch(/reference|swagger/);

    const secretsFile = join(dataDir, 'secrets.json');
    const secrets = JSON.parse(await readFile(secretsFile, 'utf8'));
    expect((await stat(secretsFile)).mode & 0o777).toBe(0o600);
    expect((await stat(dataDir)).mode & 0o077).toBe(0);
    // The output is no terminal here, so it may be kept where strangers read.
    expect(first.stdout()).toContain(secretsFile);
    expect(first.stdout()).not.toContain(secrets.masterKey);
    expect(first.stdout()).not.toContain(secrets.admin.password);
    const admin = createApi(first.addresses.admin, { masterkey: secrets.masterKey });
    expect(
      (await admin.post('/login', { username: 'admin', password: secrets.admin.password })).status,
    ).toBe(200);

    expect((await first.stop()).code).toBe(0);
    const second = await spawn({ dataDir, env: generated });
    expect(second.stdout()).not.toContain(secretsFile);
    expect(
      (await createApi(second.addresses.admin, { masterkey: secrets.masterKey }).get('/config'))
        .status,
    ).toBe(200);
  });

  it('shows the secrets at the first start that succeeds', async () => {
    const dataDir = await temporaryFolder('data');
    const port = String(await freePort());
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(Number(port), '127.0.0.1', resolve));
    cleanUps.push(async () => taken.close());
    const failed = await failedStart({ dataDir, env: { ...generated, CLIENT_HTTP_PORT: port } });
    expect(failed).toMatchObject({ code: 1, said: expect.stringContaining(port) });

    const platform = await spawn({ dataDir, env: generated });
    const { masterKey, admin } = JSON.parse(await readFile(join(dataDir, 'secrets.json'), 'utf8'));
    expect(platform.stdout()).toContain(join(dataDir, 'secrets.json'));
    const login = await createApi(platform.addresses.admin, { masterkey: masterKey }).post(
      '/login',
      admin,
    );
    expect(login.status).toBe(200);
  });

  it('stops when npm gets the signal, which its shell does not pass on', async () => {
    const [client, admin] = [await freePort(), await freePort()];
    const ports = {
      CLIENT_HTTP_PORT: String(client),
      ADMIN_HTTP_PORT: String(admin),
      CLIENT_SOCKET_PORT: '-1',
    };
    const dataDir = await temporaryFolder('npm');
    const npm = spawnProgram('npm', ['start'], {
      cwd: projectRoot,
      env: { ...process.env, ...ports, PENSTOCK_DATA_DIR: dataDir },
      stdio: 'ignore',
    });
    const alive = () =>
      fetch(`http://127.0.0.1:${admin}/live`).then(
        ({ ok }) => ok,
        () => false,
      );
    await waitFor(alive, { timeoutMs: 30_000 });
    npm.kill('SIGTERM');
    await waitFor(async () => !(await alive()));
    await removeFolder(dataDir);
  });

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'stops cleanly on %s and leaves no process',
    async (signal) => {
      const platform = await spawn({ afterFirstStart: signal === 'SIGINT' });
      const family = await descendants(platform.pid);
      expect(family.some(({ command }) => command.includes('postgres'))).toBe(true);
      const exit = await platform.stop(signal);
      expect({ ...exit, said: platform.stderr() }).toEqual({ code: 0, signal: null, said: '' });
      expect(await Promise.all(family.map(({ pid }) => isRunning(pid)))).not.toContain(true);
    },
  );

  it('writes structured logs after the banner, and no secret into logs and metrics', async () => {
    const metricsPort = await freePort();
    const platform = await spawn({
      afterFirstStart: true,
      env: { LOG_LEVEL: 'debug', METRICS_PORT: String(metricsPort) },
    });
    const user = await platform.registerUser();
    await platform.admin.get('/config');
    const adminToken = await platform.adminLogin();
    const { token: apiToken } = (await platform.admin.post('/api-tokens', { name: 'secret' })).body;
    await platform.adminAnonymous.get('/config', { headers: { credential: apiToken } });
    await platform.client.get('/authentication/user', { token: `${user.accessToken}x` });
    const metrics = (await createApi(`http://127.0.0.1:${metricsPort}`).get('/metrics')).text;
    expect(metrics).toContain('penstock_');
    await platform.stop();
    const lines = platform
      .stdout()
      .split('\n')
      .filter((line) => line.startsWith('{'));
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expect(JSON.parse(line)).toHaveProperty('level');
    const output = platform.stdout() + platform.stderr() + metrics;
    for (const secret of [
      platform.masterKey,
      platform.adminPassword,
      adminToken,
      apiToken,
      user.password,
      user.accessToken,
      user.refreshToken,
    ])
      expect(output).not.toContain(secret);
  });
});

describe('a start after kill -9', { timeout: 120_000 }, () => {
  it('works, and the data is there', async () => {
    const dataDir = await startedFolder();
    const first = await spawn({ dataDir });
    const user = await first.registerUser();
    await first.kill();
    const second = await spawn({ dataDir });
    await second.login(user.email, user.password);
  });
});

describe('a start that cannot be', { timeout: 120_000 }, () => {
  it('says which port is in use and which variable to change', async () => {
    const port = await freePort();
    const squatter = createServer().listen(port, '127.0.0.1');
    cleanUps.push(async () => squatter.close());
    const { code, said } = await failedStart({ env: { ADMIN_HTTP_PORT: String(port) } });
    expect(code).toBe(1);
    expect(oneLine(said)).toBe(1);
    expect(said).toContain(String(port));
    expect(said).toContain('ADMIN_HTTP_PORT');
  });

  it('says which process uses the data folder', async () => {
    const first = await spawn({ afterFirstStart: true });
    const { code, said } = await failedStart({ dataDir: first.dataDir });
    expect(code).toBe(1);
    expect(oneLine(said)).toBe(1);
    expect(said).toContain(first.dataDir);
    expect(said).toMatch(/\b\d+\b/);
    expect((await first.admin.get('/ready')).status).toBe(200);
  });

  it('says what is wrong with a variable', async () => {
    const { code, said } = await failedStart({ env: { CLIENT_HTTP_PORT: 'abc' } });
    expect(code).toBe(1);
    expect(oneLine(said)).toBe(1);
    expect(said).toContain('CLIENT_HTTP_PORT');
    expect(said).toContain('abc');
  });

  it('says that nobody answers at DATABASE_URL', async () => {
    const port = await freePort();
    const { code, said } = await failedStart({
      env: { DATABASE_URL: `postgresql://u:topsecret@127.0.0.1:${port}/app` },
    });
    expect(code).toBe(1);
    expect(oneLine(said)).toBe(1);
    expect(said).toContain(`127.0.0.1:${port}`);
    expect(said).not.toContain('topsecret');
  });

  it('says that the server is too old', async () => {
    const old = await startPretendPostgres({ number: 140_012, name: '14.12' });
    cleanUps.push(async () => old.close());
    const { code, said } = await failedStart({ env: { DATABASE_URL: old.url } });
    expect(code).toBe(1);
    expect(oneLine(said)).toBe(1);
    expect(said).toContain('14.12');
    expect(said).toContain('15');
  });

  it('does not repeat a DATABASE_URL that is not one', async () => {
    const { code, said } = await failedStart({
      env: { DATABASE_URL: 'mysql://u:topsecret@localhost/app' },
    });
    expect(code).toBe(1);
    expect(oneLine(said)).toBe(1);
    expect(said).toContain('DATABASE_URL');
    expect(said).not.toContain('topsecret');
  });
});

await describeWithPostgres15('a start on an external server', () => {
  it('says that the password is wrong, or the database missing', { timeout: 120_000 }, async () => {
    const database = await createTestDatabase({ server: 'external15' });
    cleanUps.push(() => database.drop());
    const [wrongPassword, missing] = [new URL(database.url), new URL(database.url)];
    wrongPassword.password = 'wrong';
    missing.pathname = '/not_there';
    for (const [url, word] of [
      [wrongPassword, /password/i],
      [missing, /not_there/],
    ] as const) {
      const { code, said } = await failedStart({ env: { DATABASE_URL: url.href } });
      expect(code).toBe(1);
      expect(oneLine(said)).toBe(1);
      expect(said).toMatch(word);
    }
  });

  it('runs on PostgreSQL 15', { timeout: 120_000 }, async () => {
    const database = await createTestDatabase({ server: 'external15' });
    cleanUps.push(() => database.drop());
    const platform = await spawn({ env: { DATABASE_URL: database.url } });
    await platform.createSchema({ name: 'Thing', fields: { name: 'String' } });
    const { api } = await platform.registerUser();
    expect((await api.post('/database/Thing', { name: 'one' })).status).toBe(200);
    await platform.stop();
  });
});

describe('the command line', { timeout: 60_000 }, () => {
  it('lists the environment variables with their defaults', async () => {
    const { stdout } = await promisify(execFile)('node', ['scripts/run.mjs', 'start', '--help'], {
      cwd: join(import.meta.dirname, '..'),
    });
    for (const name of [
      'CLIENT_HTTP_PORT',
      'CLIENT_SOCKET_PORT',
      'ADMIN_HTTP_PORT',
      'HOST',
      'MASTER_KEY',
      'ADMIN_INITIAL_PASSWORD',
      'PENSTOCK_DATA_DIR',
      'DATABASE_URL',
      'REDIS_URL',
      'TRUSTED_PROXIES',
      'LOG_LEVEL',
      'METRICS_PORT',
      'READY_STRICT',
    ]) {
      expect(stdout).toContain(name);
    }
    expect(stdout).toContain('3030');
  });
});
