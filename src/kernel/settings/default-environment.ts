/** What an installation is for unless its configuration says so (`core.env`), and the master keys that production refuses. */
import { BlockList, isIP } from 'node:net';
import { StartError } from '../start-error.ts';

export interface DefaultEnvironment {
  readonly env: 'development' | 'production';
  /** The variable that decided; `undefined`: none did, and only programs of this machine can call. */
  readonly because: 'NODE_ENV' | 'HOST' | undefined;
}

/** For `--help`, beside the variables that are settings. */
export const nodeEnvHelp = {
  name: 'NODE_ENV',
  description:
    'production or development: what core.env is unless it is configured; otherwise HOST decides, and an address beyond loopback means production',
  documentedDefault: '',
};

/**
 * Other values of `NODE_ENV` (test runners set `test`) say nothing about an installation. Whoever can be called by
 * other machines is closed unless the operator says otherwise.
 */
export function defaultEnvironmentOf(
  host: string,
  nodeEnv: string | undefined,
): DefaultEnvironment {
  const chosen = nodeEnv?.trim();
  if (chosen === 'production' || chosen === 'development')
    return { env: chosen, because: 'NODE_ENV' };
  return isLoopback(host)
    ? { env: 'development', because: undefined }
    : { env: 'production', because: 'HOST' };
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Whether only programs of this machine can call what listens there. Of names this is known of `localhost` alone. */
export function isLoopback(host: string): boolean {
  // An IPv6 address may name its interface.
  const [address = ''] = host.split('%', 1);
  const family = isIP(address);
  if (family === 0) return host.toLowerCase() === 'localhost';
  return loopback.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

const MIN_MASTER_KEY_LENGTH = 16;
/** Published as the default of other platforms with this interface (spec/core.md 6.4): everybody knows it. */
const PUBLISHED_MASTER_KEY = 'M4ST3RK3Y';

/** Why a master key from the environment should not be used; `undefined` when it is fine or unset. */
export function masterKeyWeakness(masterKey: string | undefined): string | undefined {
  if (masterKey === PUBLISHED_MASTER_KEY) return 'is a published default that everybody knows';
  if (masterKey !== undefined && masterKey.length < MIN_MASTER_KEY_LENGTH)
    return `is shorter than ${MIN_MASTER_KEY_LENGTH} characters`;
  return undefined;
}

/**
 * Only a start is refused: backups and the doctor work with any key.
 * @throws StartError that says what to set.
 */
export function refuseWeakMasterKey(settings: {
  readonly masterKey: string | undefined;
  readonly host: string;
  readonly defaultEnvironment: DefaultEnvironment;
}): void {
  const { masterKey, host, defaultEnvironment } = settings;
  const weakness = masterKeyWeakness(masterKey);
  if (weakness === undefined || defaultEnvironment.env !== 'production') return;
  const why =
    defaultEnvironment.because === 'HOST'
      ? `, and HOST=${host} lets other machines call (NODE_ENV=development allows it nevertheless)`
      : '';
  throw new StartError(
    `MASTER_KEY ${weakness}${why}: set another one, or none, and one is made; where the platform has run with this one, set a new one and this one as MASTER_KEY_PREVIOUS`,
  );
}
