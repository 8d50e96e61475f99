/** How the embedded server is configured. Everything is given at start: nothing is written into its folder. */

/** For a platform on a small machine; see the PostgreSQL manual, chapter "Server Configuration". */
const tuning: Readonly<Record<string, string>> = {
  shared_buffers: '128MB',
  effective_cache_size: '512MB',
  work_mem: '8MB',
  maintenance_work_mem: '64MB',
  // Short statements only: compiling them costs more than it saves.
  jit: 'off',
  random_page_cost: '1.1',
  max_wal_size: '1GB',
  checkpoint_timeout: '15min',
  max_wal_senders: '0',
  max_locks_per_transaction: '128',
  huge_pages: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_line_prefix: '%m [%p] ',
  // Failing statements reach the platform; in the log they would show personal data.
  log_min_messages: 'log',
};

/** Connections that the server takes, unless more are asked for. */
const LEAST_CONNECTIONS = 100;

/** Arguments of `postgres`: one unix socket in a private folder, no network at all. */
export function serverArguments(dataFolder: string, socketFolder: string, connections = 0): string[] {
  const settings = {
    ...tuning,
    max_connections: String(Math.max(LEAST_CONNECTIONS, connections)),
    listen_addresses: '',
    unix_socket_directories: socketFolder,
    unix_socket_permissions: '0700',
    port: String(SOCKET_PORT),
  };
  return ['-D', dataFolderArgument(dataFolder), ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

/** Part of the socket's file name. */
export const SOCKET_PORT = 5432;

/**
 * How a data folder is named to PostgreSQL. On Linux programs run inside the folder and call it by
 * their own working directory, so that the unprivileged server needs no way through the folders above it.
 */
export const dataFolderArgument = (folder: string): string => (process.platform === 'linux' ? '/proc/self/cwd' : folder);

/** Nothing of our environment (PG* variables, locale, secrets) reaches the server. */
export const serverEnvironment = (): NodeJS.ProcessEnv => ({ PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C' });
