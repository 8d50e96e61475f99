/** The environment, read once and in one place. `npm start -- --help` is made from the same table. */
export interface Settings {
  readonly clientHttpPort: number;
  readonly clientSocketPort: number;
  readonly adminHttpPort: number;
  readonly host: string;
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
  readonly redisUrl: string | undefined;
  /** Addresses, CIDR ranges, or a number of hops. Empty: forwarding headers are ignored. */
  readonly trustedProxies: readonly string[];
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  readonly metricsPort: number | undefined;
  readonly metricsHost: string;
  readonly metricsToken: string | undefined;
  readonly metricsPrefix: string;
  readonly ready: ReadySettings;
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
