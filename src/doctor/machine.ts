/** The machine: versions, the data folder, the disk, the ports. */
import { constants } from 'node:fs';
import { access, stat, statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { readSecrets } from '../kernel/data-folder/secrets-file.ts';
import type { Settings } from '../kernel/settings/settings.ts';
import { version } from '../kernel/version.ts';
import { type Finding, note, ok, problem, warning } from './finding.ts';

/** Oldest Node.js that the platform's own code runs on. */
const OLDEST_NODE = 24;
const GB = 1_000_000_000;
const OTHERS = 0o077;
const OTHERS_WRITE = 0o022;

export async function checkMachine(settings: Settings): Promise<Finding[]> {
  return [
    checkNode(),
    ...(await checkFolder(settings.dataDir)),
    ...(await Promise.all([
      checkPort('client surface', 'CLIENT_HTTP_PORT', settings.clientHttpPort, settings.host),
      checkPort('admin surface', 'ADMIN_HTTP_PORT', settings.adminHttpPort, settings.host),
      checkPort('realtime surface', 'CLIENT_SOCKET_PORT', settings.clientSocketPort, settings.host),
      checkPort('metrics', 'METRICS_PORT', settings.metricsPort ?? -1, settings.metricsHost),
    ])),
  ].filter((finding) => finding !== undefined);
}

function checkNode(): Finding {
  const major = Number(process.versions.node.split('.')[0]);
  if (major >= OLDEST_NODE)
    return ok('Versions', `Penstock ${version} on Node.js ${process.versions.node}`);
  return problem(
    'Versions',
    `Penstock ${version} runs on Node.js ${process.versions.node}`,
    `Start it with npm start or penstock, which bring Node.js ${OLDEST_NODE}`,
  );
}

type Failure = NodeJS.ErrnoException;

/** Why the system refuses; `undefined` where it does not. */
const failureOf = (asked: Promise<unknown>): Promise<Failure | undefined> =>
  asked.then(
    () => undefined,
    (error: Failure) => error,
  );

const useOf = (path: string): Promise<Failure | undefined> =>
  failureOf(access(path, constants.R_OK | constants.W_OK | constants.X_OK));

async function checkFolder(path: string): Promise<Finding[]> {
  const facts = await stat(path).catch((error: Failure) => error);
  if (facts instanceof Error)
    return [facts.code === 'ENOENT' ? await checkParent(path) : unusable(path, facts)];
  if (!facts.isDirectory()) return [unusable(path, { code: 'ENOTDIR' })];
  const failure = await useOf(path);
  if (failure) return [unusable(path, failure)];
  return [checkOwnership(path, facts.mode), await checkSecrets(path), await checkDisk(path)].filter(
    (finding) => finding !== undefined,
  );
}

/** The first start makes the folders above it too, in the nearest one that is there. */
async function checkParent(path: string): Promise<Finding> {
  let parent = dirname(path);
  while ((await failureOf(stat(parent)))?.code === 'ENOENT' && dirname(parent) !== parent)
    parent = dirname(parent);
  const failure = await useOf(parent);
  return failure
    ? unusable(parent, failure)
    : note('Data folder', `${path} does not exist yet; the first start makes it`);
}

/** What the start would say (`openDataFolder`). */
function unusable(path: string, { code }: Pick<Failure, 'code'>): Finding {
  if (code === 'ENOTDIR')
    return problem(
      'Data folder',
      `${path} is a file, or lies below one`,
      'Set PENSTOCK_DATA_DIR to a folder',
    );
  if (code === 'EROFS')
    return problem(
      'Data folder',
      `${path} lies on a disk that is mounted read-only`,
      'Look into the log of the system: one that has errors is mounted so. Or set PENSTOCK_DATA_DIR to a folder on another disk',
    );
  return problem(
    'Data folder',
    `${path} cannot be used by this user (${code})`,
    'Change its owner, or set PENSTOCK_DATA_DIR to a folder that this user may write',
  );
}

/** Who may write into the folder may put another key there. */
function checkOwnership(path: string, mode: number): Finding {
  if ((mode & OTHERS_WRITE) === 0) return ok('Data folder', `${path} can be used`);
  return problem(
    'Data folder',
    `Other users of this machine may write into ${path}`,
    `Run: chmod 700 ${path}`,
  );
}

/** Whoever reads the file owns the platform. */
async function checkSecrets(folder: string): Promise<Finding | undefined> {
  const path = join(folder, 'secrets.json');
  const facts = await stat(path).catch(() => undefined);
  if (!facts) return undefined;
  if ((facts.mode & OTHERS) !== 0)
    return problem(
      'Keys',
      `${path} can be read by others`,
      `Run: chmod 600 ${path}, and change the master key if somebody else has read it`,
    );
  const failure = await failureOf(readSecrets(folder));
  if (failure)
    return problem(
      'Keys',
      failure.message,
      'Without MASTER_KEY in the environment the platform does not start',
    );
  return ok('Keys', `${path} is readable by its owner only`);
}

async function checkDisk(path: string): Promise<Finding> {
  const { bavail, bsize, blocks } = await statfs(path);
  const free = bavail * bsize;
  const share = blocks > 0 ? bavail / blocks : 1;
  const text = `${(free / GB).toFixed(1)} GB are free where ${path} is`;
  if (free < GB / 4)
    return problem('Disk', text, 'Free some space now: PostgreSQL stops when it cannot write');
  if (free < 2 * GB || share < 0.05)
    return warning('Disk', text, 'Free some space, or move PENSTOCK_DATA_DIR to a larger disk');
  return ok('Disk', text);
}

/** A port that is taken is fine when we are the ones who took it. */
async function checkPort(
  what: string,
  variable: string,
  port: number,
  host: string,
): Promise<Finding | undefined> {
  if (port <= 0) return undefined;
  const subject = `Port ${port}`;
  const error = await tryListen(port, host);
  if (error === undefined) return ok(subject, `free, for the ${what}`);
  if (error.code === 'EADDRINUSE') {
    if (await answersAsPenstock(port, host))
      return ok(subject, `in use by a running Penstock (${what})`);
    return problem(
      subject,
      `taken by another program, needed for the ${what}`,
      `Stop that program, or set ${variable} to another port`,
    );
  }
  return problem(
    subject,
    `cannot be opened on ${host} (${error.code ?? error.message})`,
    `Correct HOST, or choose a port above 1023 in ${variable}`,
  );
}

const tryListen = (port: number, host: string): Promise<NodeJS.ErrnoException | undefined> =>
  new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error));
    server.listen(port, host, () => server.close(() => resolve(undefined)));
  });

const PATIENCE_MS = 2_000;

/** Every surface of ours names its requests; the realtime one answers Engine.IO, and that of metrics says what it is for. */
async function answersAsPenstock(port: number, host: string): Promise<boolean> {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  const base = `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
  const answers = await Promise.all(
    ['/live', '/realtime/?EIO=4&transport=polling', '/'].map((path) =>
      fetch(base + path, { signal: AbortSignal.timeout(PATIENCE_MS) }).then(
        async (response) =>
          response.headers.has('x-request-id') ||
          /"sid"|Metrics are at|metrics token/.test(await response.text()),
        () => false,
      ),
    ),
  );
  return answers.includes(true);
}
