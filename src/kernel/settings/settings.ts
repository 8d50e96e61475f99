/** The environment, read once and in one place. `npm start -- --help` is made from the same table. */
import { resolve } from 'node:path';
import { StartError } from '../start-error.ts';
import {
  type DefaultEnvironment,
  defaultEnvironmentOf,
  nodeEnvHelp,
} from './default-environment.ts';
import { stateSecretHelp, stateSecretsOf } from './state-secrets.ts';
import {
  count,
  flag,
  list,
  milliseconds,
  millisecondsOrNone,
  oneOf,
  optionalPort,
  optionalText,
  pattern,
  port,
  portOrOff,
  processes,
  proxies,
  secret,
  text,
  url,
  type Variable,
} from './variables.ts';

export interface Settings {
  /** 0 picks a free port, here and below. */
  readonly clientHttpPort: number;
  /** Negative: no realtime. */
  readonly clientSocketPort: number;
  /** Negative: none. */
  readonly adminSocketPort: number;
  readonly adminHttpPort: number;
  readonly host: string;
  /** What `core.env` is unless it is configured. */
  readonly defaultEnvironment: DefaultEnvironment;
  /** Processes that serve the same ports. */
  readonly workers: number;
  /** Which of them this is, from 0; the supervisor says it. */
  readonly worker?: number;
  /** The run of the installation that it belongs to, where others do too. */
  readonly run?: string;
  /** Milliseconds that an event loop may stand still before its process is replaced; 0: for ever. */
  readonly watchdogMs: number;
  readonly stop: StopSettings;
  /** From the environment; `undefined` means: use the one kept in the data folder. */
  readonly masterKey: string | undefined;
  readonly masterKeyPrevious: string | undefined;
  readonly configEncryptionKey: string | undefined;
  readonly adminInitialPassword: string | undefined;
  /** Absolute path. */
  readonly dataDir: string;
  readonly databaseUrl: string | undefined;
  /** Off for poolers that cannot keep prepared statements. */
  readonly databasePreparedStatements: boolean;
  /** Off falls back to one statement at a time on each connection. */
  readonly databasePipelining: boolean;
  /** Connections for statements of unknown length (lists, searches, checks), each of which has one for itself. */
  readonly databasePoolSize: number;
  /** Connections for transactions. */
  readonly databaseTransactions: number;
  /** Milliseconds that a list or a search by a client may run. */
  readonly databaseSearchTimeoutMs: number;
  readonly redisUrl: string | undefined;
  /** Addresses, CIDR ranges, or a number of hops. Empty: forwarding headers are ignored. */
  readonly trustedProxies: readonly string[];
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  readonly metricsPort: number | undefined;
  readonly metricsHost: string;
  readonly metricsToken: string | undefined;
  readonly metricsPrefix: string;
  /** Of a collector for traces; `undefined`: none are made. */
  readonly otlpEndpoint: string | undefined;
  /** What the trace is to us that a request says it belongs to. */
  readonly traceContext: 'link' | 'continue';
  readonly ready: ReadySettings;
  /** Values for the secrets of imported state documents, by variable (`SECRET_...`). */
  readonly stateSecrets: Readonly<Record<string, string>>;
}

/** How SIGTERM is obeyed. Times in ms. */
export interface StopSettings {
  /** From `/ready` 503 to closed ports: what a proxy needs to look elsewhere. Still serving. */
  readonly pauseMs: number;
  /** For requests that run when the ports close. Longer than any deadline of a request, unless set otherwise. */
  readonly graceMs: number;
}

/** The `READY_*` variables of spec/core.md 6.4. Times in ms. */
export interface ReadySettings {
  readonly requiredModules: readonly string[];
  readonly checkRedis: boolean;
  readonly strict: boolean;
  readonly probeModulesActive: boolean;
  readonly publicDetails: boolean;
  readonly totalTimeoutMs: number;
  readonly redisTimeoutMs: number;
  readonly moduleTimeoutMs: number;
}

type Table<T> = { readonly [K in keyof T]: Variable<T[K]> };

/** Processes give a sign of life each second: with less than two of them a healthy one would be ended. */
const MIN_WATCHDOG_MS = 2_000;

const variables: Table<Omit<Settings, 'ready' | 'stop' | 'stateSecrets' | 'defaultEnvironment'>> = {
  clientHttpPort: port('CLIENT_HTTP_PORT', 3000, 'Port of the client surface; 0 picks a free one'),
  clientSocketPort: portOrOff(
    'CLIENT_SOCKET_PORT',
    3001,
    'Port of the realtime surface; negative switches it off',
  ),
  adminHttpPort: port('ADMIN_HTTP_PORT', 3030, 'Port of the admin surface'),
  adminSocketPort: portOrOff(
    'ADMIN_SOCKET_PORT',
    3031,
    'Port for sockets of operators, beside /realtime of the admin surface, while `admin.transports.sockets` is on; negative: none',
  ),
  host: text('HOST', '127.0.0.1', 'Address to listen on; 0.0.0.0 for all'),
  workers: processes(
    'WORKERS',
    64,
    'Processes that serve the same ports: a number, or auto for one per core',
  ),
  watchdogMs: millisecondsOrNone(
    'WATCHDOG_MS',
    10_000,
    'A process whose event loop stands still this long is replaced; 0 switches that off',
    MIN_WATCHDOG_MS,
  ),
  masterKey: optionalText('MASTER_KEY', 'Key of the operator; made at the first start when unset'),
  masterKeyPrevious: optionalText(
    'MASTER_KEY_PREVIOUS',
    'The key before, still accepted while you rotate; in production not as a credential where it is weak',
  ),
  configEncryptionKey: secret(
    'CONFIG_ENCRYPTION_KEY',
    16,
    'Protects stored secrets; derived from the master key when unset',
  ),
  adminInitialPassword: secret(
    'ADMIN_INITIAL_PASSWORD',
    8,
    'Password of the first admin; made at the first start when unset',
  ),
  dataDir: {
    ...text('PENSTOCK_DATA_DIR', '.penstock', 'Folder for everything that is kept'),
    read: (value) => resolve(value ?? '.penstock'),
  },
  databaseUrl: url(
    'DATABASE_URL',
    ['postgres', 'postgresql'],
    'Your PostgreSQL (15 or newer) instead of the embedded one',
  ),
  databasePreparedStatements: flag(
    'DATABASE_PREPARED_STATEMENTS',
    true,
    'Off for poolers that cannot keep prepared statements',
  ),
  databasePipelining: flag(
    'DATABASE_PIPELINING',
    true,
    'Off sends one statement at a time on each connection',
  ),
  databasePoolSize: count(
    'DATABASE_POOL_SIZE',
    8,
    [2, 200],
    'Lists, searches and checks that run in the database at a time',
  ),
  databaseTransactions: count(
    'DATABASE_TRANSACTIONS',
    10,
    [2, 200],
    'Transactions that run in the database at a time',
  ),
  databaseSearchTimeoutMs: milliseconds(
    'DATABASE_SEARCH_TIMEOUT_MS',
    3000,
    'Time that the database may spend on a list or search by a client',
  ),
  redisUrl: url('REDIS_URL', ['redis', 'rediss'], 'Redis that connects several nodes'),
  trustedProxies: proxies(
    'TRUSTED_PROXIES',
    'Proxies whose forwarding headers count: addresses, CIDR ranges, or a number of hops',
  ),
  logLevel: oneOf(
    'LOG_LEVEL',
    ['debug', 'info', 'warn', 'error', 'silent'],
    'info',
    'Least severity that is logged',
  ),
  metricsPort: optionalPort('METRICS_PORT', 'Port of the Prometheus metrics; off when unset'),
  metricsHost: text('METRICS_HOST', '127.0.0.1', 'Address of the metrics port'),
  metricsToken: optionalText('METRICS_TOKEN', 'Bearer token that the metrics port asks for'),
  metricsPrefix: pattern(
    'METRICS_PREFIX',
    'penstock_',
    { what: 'letters, digits and underscores', matches: /^[a-zA-Z_][a-zA-Z0-9_]*$/ },
    'Prefix of every metric name',
  ),
  otlpEndpoint: url(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    ['http', 'https'],
    'OpenTelemetry collector that gets traces (OTLP over HTTP); none when unset',
  ),
  traceContext: oneOf(
    'TRACE_CONTEXT',
    ['link', 'continue'],
    'link',
    'A traceparent header is linked from the trace of the request, or continued by it; continue only where every caller may be trusted',
  ),
};

const stopVariables: Table<StopSettings> = {
  pauseMs: {
    ...millisecondsOrNone(
      'STOP_PAUSE_MS',
      0,
      'At SIGTERM: time in which /ready answers 503 and the ports stay open, for proxies and balancers',
    ),
    documentedDefault: '0; 3000 when TRUSTED_PROXIES is set',
  },
  graceMs: milliseconds(
    'STOP_GRACE_MS',
    35_000,
    'At SIGTERM: time for requests that run; what is left then answers 503',
  ),
};

const readyVariables: Table<ReadySettings> = {
  requiredModules: list(
    'READY_REQUIRED_MODULES',
    'Modules without which /ready fails, separated by commas',
  ),
  checkRedis: flag('READY_CHECK_REDIS', true, 'Whether /ready asks Redis'),
  strict: flag('READY_STRICT', false, 'Warnings of other modules make /ready fail'),
  probeModulesActive: flag('READY_PROBE_MODULES_ACTIVE', false, 'Whether /ready asks every module'),
  publicDetails: flag(
    'READY_PUBLIC_DETAILS',
    false,
    'Whether /ready gives reasons to callers without a credential',
  ),
  totalTimeoutMs: milliseconds('READY_TOTAL_TIMEOUT_MS', 3000, 'Time for all checks of /ready'),
  redisTimeoutMs: milliseconds('READY_REDIS_TIMEOUT_MS', 500, 'Time for the check of Redis'),
  moduleTimeoutMs: milliseconds(
    'READY_MODULE_TIMEOUT_MS',
    1000,
    'Time for the check of one module',
  ),
};

type Environment = Readonly<Record<string, string | undefined>>;

function readTable<T>(table: Table<T>, environment: Environment): T {
  const entries = Object.entries<Variable<unknown>>(table).map(([key, variable]) => {
    const value = environment[variable.name];
    // An empty variable is an unset one: `MASTER_KEY=` must not mean an empty key.
    return [key, variable.read(value?.trim() === '' ? undefined : value)];
  });
  return Object.fromEntries(entries) as T;
}

/**
 * Reads all settings.
 * @throws StartError that names the variable and what it must be.
 */
export function readSettings(environment: Environment): Settings {
  const values = readTable(variables, environment);
  const settings: Settings = {
    ...values,
    defaultEnvironment: defaultEnvironmentOf(values.host, environment.NODE_ENV),
    stop: readStop(environment),
    ready: readTable(readyVariables, environment),
    stateSecrets: stateSecretsOf(environment),
  };
  refuseSharedPorts(settings);
  refuseFreePorts(settings);
  return settings;
}

/** Found here, and not when the second one is opened: "in use" would send the operator looking for another program. */
function refuseSharedPorts(settings: Settings): void {
  const names = new Map<number, string>();
  const surfaces = [
    'clientHttpPort',
    'clientSocketPort',
    'adminHttpPort',
    'adminSocketPort',
  ] as const;
  for (const key of settings.metricsHost === settings.host
    ? [...surfaces, 'metricsPort' as const]
    : surfaces) {
    const [{ name }, port = 0] = [variables[key], settings[key]];
    const other = names.get(port);
    // 0 picks a free one, and negative is off.
    if (port > 0 && other !== undefined)
      throw new StartError(`${other} and ${name} are both ${port}: give each a port of its own`);
    names.set(port, name);
  }
}

/** A free port would be another one for each process. */
function refuseFreePorts(settings: Settings): void {
  if (settings.workers === 1) return;
  for (const key of ['clientHttpPort', 'clientSocketPort', 'adminHttpPort'] as const) {
    if (settings[key] === 0)
      throw new StartError(
        `${variables[key].name} must be a fixed port when WORKERS is more than 1`,
      );
  }
}

/** A proxy in front needs a moment to look elsewhere. */
const PAUSE_BEHIND_PROXY_MS = 3_000;

function readStop(environment: Environment): StopSettings {
  const stop = readTable(stopVariables, environment);
  const isUnset = (environment[stopVariables.pauseMs.name] ?? '').trim() === '';
  const behindProxy = (environment[variables.trustedProxies.name] ?? '').trim() !== '';
  return isUnset && behindProxy ? { ...stop, pauseMs: PAUSE_BEHIND_PROXY_MS } : stop;
}

/** One line for each variable: name, what it does, default. */
export function settingsHelp(): string {
  const tables = [variables, stopVariables, readyVariables];
  const rows = [
    ...tables.flatMap((table) => Object.values<Variable<unknown>>(table)),
    nodeEnvHelp,
    stateSecretHelp,
  ];
  const width = Math.max(...rows.map(({ name }) => name.length));
  return rows
    .map(
      ({ name, description, documentedDefault }) =>
        `  ${name.padEnd(width)}  ${description}${documentedDefault ? ` [${documentedDefault}]` : ''}`,
    )
    .join('\n');
}
