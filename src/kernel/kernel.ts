/** The kernel as modules and surfaces see it: every shared service by its contract. */
import type { Audit } from './audit/audit.ts';
import type { Caches } from './cache/cache.ts';
import type { ConfigService } from './config/service.ts';
import type { Database } from './database/database.ts';
import type { StatementTimings } from './database/timings.ts';
import type { Bus } from './events/bus.ts';
import type { Events } from './events/events.ts';
import type { Health } from './health.ts';
import type { Identity } from './identity.ts';
import type { Jobs } from './jobs/jobs.ts';
import type { DurableLimits } from './limits/durable.ts';
import type { Limits } from './limits/limits.ts';
import type { RouteMiddlewares } from './middlewares/create.ts';
import type { PermissionPort } from './permissions.ts';
import type { RecordStore } from './records/store.ts';
import type { OperationRegistry } from './registry.ts';
import type { SchemaRegistry } from './schema/registry.ts';
import type { PasswordHasher } from './security/passwords.ts';
import type { SecretBox } from './security/secret-box.ts';
import type { Settings } from './settings.ts';
import type { StateRegistry } from './state/state.ts';
import type { Logger } from './telemetry/logger.ts';
import type { Metrics } from './telemetry/metrics.ts';
import type { Tracing } from './telemetry/tracing/tracing.ts';

export interface Kernel {
  readonly settings: Settings;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Absent while no collector is configured. */
  readonly tracing?: Tracing | undefined;
  readonly health: Health;
  readonly database: Database;
  /** How long the statements of this node took. */
  readonly timings: StatementTimings;
  readonly bus: Bus;
  readonly events: Events;
  readonly jobs: Jobs;
  readonly audit: Audit;
  readonly caches: Caches;
  readonly limits: Limits;
  /** Budgets of guesses and of messages: in the database, the same for all nodes and after a restart. */
  readonly durableLimits: DurableLimits;
  readonly secrets: SecretBox;
  readonly passwords: PasswordHasher;
  readonly config: ConfigService;
  readonly schemas: SchemaRegistry;
  readonly records: RecordStore;
  readonly operations: OperationRegistry;
  /** What operators put before routes. */
  readonly middlewares: RouteMiddlewares;
  readonly identity: Identity;
  readonly permissions: PermissionPort;
  /** What modules contribute to the state as a document. */
  readonly state: StateRegistry;
  readonly modules: ModuleDirectory;
}

/** Which modules exist and whether they serve (spec/core.md section 7). */
export interface ModuleDirectory {
  list(): readonly ModuleState[];
}

export interface ModuleState {
  readonly name: string;
  readonly serving: boolean;
  /** Why it does not serve, or that it runs with an older configuration. */
  readonly note?: string;
}
