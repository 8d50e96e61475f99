/** The kernel as modules and surfaces see it: every shared service by its contract. */

import type { RecordStore } from '../data/records/store.ts';
import type { SchemaRegistry } from '../data/schema/registry/registry.ts';
import type { Audit } from '../kernel/audit/audit.ts';
import type { Caches } from '../kernel/cache.ts';
import type { StartProgram } from '../kernel/child-programs.ts';
import type { ConfigService } from '../kernel/config/config-service.ts';
import type { Database } from '../kernel/database/database.ts';
import type { StatementTimings } from '../kernel/database/statement-timings.ts';
import type { Bus, UserSignals } from '../kernel/events/bus.ts';
import type { Events } from '../kernel/events/events.ts';
import type { Health } from '../kernel/health.ts';
import type { Hooks } from '../kernel/hooks/hooks.ts';
import type { Identity } from '../kernel/identity.ts';
import type { Jobs } from '../kernel/jobs/jobs.ts';
import type { DurableLimits } from '../kernel/limits/durable-limits.ts';
import type { Limits } from '../kernel/limits/limits.ts';
import type { RouteMiddlewares } from '../kernel/middlewares/route-middlewares.ts';
import type { PromptRegistry } from '../kernel/operations/prompts.ts';
import type { OperationRegistry } from '../kernel/operations/registry.ts';
import type { PermissionPort } from '../kernel/permissions.ts';
import type { PasswordHasher } from '../kernel/security/password-hasher.ts';
import type { SecretBox } from '../kernel/security/secret-box.ts';
import type { Tickets } from '../kernel/security/tickets.ts';
import type { Settings } from '../kernel/settings/settings.ts';
import type { OperatorNotices } from '../kernel/sockets/operator-notices.ts';
import type { SocketNamespaces } from '../kernel/sockets/socket-namespace.ts';
import type { StateRegistry } from '../kernel/state.ts';
import type { LogTail } from '../kernel/telemetry/log-tail.ts';
import type { Logger } from '../kernel/telemetry/logger.ts';
import type { Metrics } from '../kernel/telemetry/metrics.ts';
import type { Tracing } from '../kernel/telemetry/tracing.ts';

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
  /** What sockets of users are told at once. */
  readonly signals: UserSignals;
  /** What modules offer over sockets. */
  readonly sockets: SocketNamespaces;
  /** What operators are told over the sockets of the admin surface. */
  readonly operatorNotices: OperatorNotices;
  /** The log, for those who watch it now. */
  readonly logTail: Pick<LogTail, 'watch'>;
  readonly jobs: Jobs;
  readonly audit: Audit;
  readonly caches: Caches;
  readonly limits: Limits;
  /** Budgets of guesses and of messages: in the database, the same for all nodes and after a restart. */
  readonly durableLimits: DurableLimits;
  readonly secrets: SecretBox;
  /** What is worth a credential once, for some seconds. */
  readonly tickets: Tickets;
  readonly passwords: PasswordHasher;
  readonly config: ConfigService;
  readonly schemas: SchemaRegistry;
  /** What is asked before something happens. */
  readonly hooks: Hooks;
  readonly records: RecordStore;
  readonly operations: OperationRegistry;
  /** What models are told about the common jobs. */
  readonly prompts: PromptRegistry;
  /** What operators put before routes. */
  readonly middlewares: RouteMiddlewares;
  readonly identity: Identity;
  readonly permissions: PermissionPort;
  /** What modules contribute to the state as a document. */
  readonly state: StateRegistry;
  readonly modules: ModuleDirectory;
  /** Starts a program beside the platform. */
  readonly startProgram: StartProgram;
}

/** Which modules exist and whether they serve (spec/core.md section 7). */
export interface ModuleDirectory {
  list(): readonly ModuleState[];
}

export interface ModuleState {
  readonly name: string;
  /** Names under which old clients look for it too. */
  readonly formerly?: readonly string[];
  readonly serving: boolean;
  /** It is switched off, and its routes answer as if there were none. */
  readonly missing?: boolean;
  /** Why it does not serve, or that it runs with an older configuration. */
  readonly note?: string;
}
