/**
 * Looks up the names of hosts that the platform calls. The system's own resolver keeps one of the process's few threads
 * for as long as a name server is silent, and files, hashes and compression need those threads too: whoever may name a
 * host could hold up all of them. So name servers are asked without a thread, and only what they do not know goes to the
 * system (names of the hosts file, of this machine's domain or of another directory), two names at a time.
 */
import { type LookupAddress, lookup, Resolver } from 'node:dns';
import { readFile, stat } from 'node:fs/promises';
import type { LookupFunction } from 'node:net';
import { promisify } from 'node:util';

/** Milliseconds until a name server is asked again, and how often it is asked; the pauses grow. */
const ASK_MS = 2_000;
const ASKS = 2;
/** Look-ups of the system at a time: half of the threads that Node has unless told otherwise. */
const AT_ONCE = 2;
/** Milliseconds that a name waits for the system. */
const PATIENCE_MS = 5_000;
/** Names that wait. */
const MAX_WAITING = 256;

type Addresses = readonly LookupAddress[];
export type FindAddresses = (hostname: string) => Promise<Addresses>;

/** Where names are found; replaced by tests. */
export interface NameSources {
  /** Asks name servers. Rejects with an error that has a `code`, as `dns.resolve4` does. */
  readonly servers: FindAddresses;
  /** Asks the system. */
  readonly system: FindAddresses;
  /** Whether the hosts file of this machine has the name. */
  readonly isListed: (hostname: string) => Promise<boolean>;
}

/** Finds all addresses of a host. Rejects with the error of who was asked, or `ETIMEOUT`. */
export function createNameLookup({ servers, system, isListed }: NameSources): FindAddresses {
  const ask = inTurns(system);
  return async (hostname) => {
    if (isOfThisMachine(hostname) || (await isListed(hostname))) return ask(hostname);
    try {
      return await servers(hostname);
    } catch (error) {
      // Who was silent now would be silent again, on a thread.
      if (codeOf(error) === 'ETIMEOUT') throw error;
      return ask(hostname);
    }
  };
}

/** Name servers of others never know these (RFC 6761, RFC 6762); one without a dot belongs to the domain of this machine. */
const isOfThisMachine = (hostname: string): boolean =>
  !hostname.replace(/\.$/, '').includes('.') || /\.(?:localhost|local)\.?$/i.test(hostname);

const codeOf = (error: unknown): unknown =>
  error instanceof Error && 'code' in error ? error.code : undefined;

const timedOut = (hostname: string): Error =>
  Object.assign(new Error(`No answer about ${hostname} in time`), { code: 'ETIMEOUT', hostname });

/** Few at a time, in their order. Who waits for too long gives up. */
function inTurns(find: FindAddresses): FindAddresses {
  const waiting = new Set<() => void>();
  let running = 0;
  const turn = (hostname: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const begin = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.delete(begin);
        reject(timedOut(hostname));
      }, PATIENCE_MS);
      waiting.add(begin);
    });
  return async (hostname) => {
    if (running >= AT_ONCE) {
      if (waiting.size >= MAX_WAITING) throw timedOut(hostname);
      // Whoever ends hands its place over.
      await turn(hostname);
    } else running += 1;
    try {
      return await find(hostname);
    } finally {
      const [next] = waiting;
      if (next) {
        waiting.delete(next);
        next();
      } else running -= 1;
    }
  };
}

/** With servers as they are configured now: a resolver that is kept would not hear of a change of network. */
async function askServers(hostname: string): Promise<Addresses> {
  const resolver = new Resolver({ timeout: ASK_MS, tries: ASKS });
  const ask = (family: 4 | 6): Promise<Addresses> =>
    new Promise((resolve, reject) => {
      resolver[`resolve${family}`](hostname, (error, addresses) => {
        if (error) reject(error);
        else resolve(addresses.map((address) => ({ address, family })));
      });
    });
  const [four, six] = await Promise.allSettled([ask(4), ask(6)]);
  const found = [four, six].flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
  if (found.length > 0) return found;
  const failures = [four, six].flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
  throw failures.find((error) => codeOf(error) === 'ETIMEOUT') ?? failures[0] ?? timedOut(hostname);
}

const lookUp = promisify(lookup);
const askSystem: FindAddresses = (hostname) => lookUp(hostname, { all: true });

const HOSTS_FILE =
  process.platform === 'win32'
    ? `${process.env.SystemRoot ?? 'C:\\Windows'}\\System32\\drivers\\etc\\hosts`
    : '/etc/hosts';

let listed: { readonly version: string; readonly names: ReadonlySet<string> } | undefined;

/** Read when it has changed, as the system does. */
async function isInHostsFile(hostname: string): Promise<boolean> {
  try {
    const { mtimeMs, size } = await stat(HOSTS_FILE);
    const version = `${mtimeMs} ${size}`;
    if (listed?.version !== version)
      listed = { version, names: hostsOf(await readFile(HOSTS_FILE, 'utf8')) };
    return listed.names.has(hostname.toLowerCase().replace(/\.$/, ''));
  } catch {
    return false;
  }
}

/** The names in a hosts file, in lower case. */
export const hostsOf = (text: string): ReadonlySet<string> =>
  new Set(
    text
      .split('\n')
      .flatMap((line) => (line.split('#', 1)[0] ?? '').trim().toLowerCase().split(/\s+/).slice(1)),
  );

/** Of this process: its threads are counted once. */
const findAddresses = createNameLookup({
  servers: askServers,
  system: askSystem,
  isListed: isInHostsFile,
});

/** For connections: only to addresses that `mayCall` allows, else they fail with `refusal`. */
export const guardedLookup =
  (
    mayCall: (address: string) => boolean,
    refusal: (hostname: string) => Error,
    find: FindAddresses = findAddresses,
  ): LookupFunction =>
  (hostname, { all, family = 0 }, callback) => {
    const requested = family === 'IPv4' ? 4 : family === 'IPv6' ? 6 : family;
    find(hostname).then(
      (addresses) => {
        const allowed = addresses.filter(
          (one) => mayCall(one.address) && (requested === 0 || one.family === requested),
        );
        const [first] = allowed;
        if (!first) callback(refusal(hostname), []);
        else if (all) callback(null, allowed);
        else callback(null, first.address, first.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, []),
    );
  };
