import type { Logger } from '../../src/kernel/telemetry/logger.ts';

/** For parts under test that must log somewhere. */
export const silentLog: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
};
