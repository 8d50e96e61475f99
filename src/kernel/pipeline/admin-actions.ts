/**
 * Writes down what operators do: every admin operation that may change something (and those of the client surface
 * that say so), whether it worked or not, whatever transport it came by. On the admin surface the row is part of the
 * transaction that makes the first change. What changed nothing has its row when it ends, before the answer is sent;
 * that such a row could not be written is no reason to fail.
 */

import type { AccompanyingRow, Audit, AuditEntry, AuditOutcome } from '../audit/audit.ts';
import { isReading } from '../authority.ts';
import { type Caller, callerKey } from '../caller.ts';
import { PenstockError } from '../errors.ts';
import type { Operation } from '../operations/operation.ts';
import type { DecodedInput } from '../operations/operation-input.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Answer } from './answer.ts';
import type { Call, CallContext } from './context.ts';
import { modulesAbout, type ObjectDirectory } from './input-authority.ts';

/**
 * Reading changes nothing, but for what reveals a secret; health opts out by `audit: false`.
 * What users do is their own matter, but for what could hand an account over: that says `audit: true`.
 */
export function isAudited(operation: Operation, input: DecodedInput): boolean {
  const { audit, reveals } = operation;
  if (reveals?.(input)) return true;
  return operation.surface === 'admin' ? (audit ?? !isReading(operation)) : audit === true;
}

export interface ActionLog {
  /** Passes the work's answer or failure on, after it was written down. */
  around(
    call: Call,
    context: CallContext,
    input: DecodedInput,
    work: () => Answer | Promise<Answer>,
  ): Promise<Answer>;
  /** A call that ended before its input was read: an admin without the right (403), or a login with a wrong master key. */
  refused(call: Call, caller: Caller, error: unknown): Promise<void>;
  /** A call of a model. What it only reads is written down too, a moment later: `given` names its arguments. */
  readByModel(
    call: Call,
    caller: Caller,
    read: {
      readonly input: DecodedInput;
      readonly given: readonly string[];
      readonly status: number;
    },
  ): void;
}

interface Written extends Pick<AuditEntry, 'caller' | 'target' | 'modules'> {
  readonly status: number;
  readonly changes?: unknown;
}

/** `objects`: what inputs name; without it a row is about the module of its operation. */
export function createActionLog(audit: Audit, log: Logger, objects?: ObjectDirectory): ActionLog {
  const about = (call: Call, input: DecodedInput): Pick<AuditEntry, 'modules'> =>
    objects ? { modules: modulesAbout(call.compiled.operation, input, objects) } : {};
  /** `entry` is made here, so that a mistake in it is no failure of the call. */
  const write = async (call: Call, caller: Caller, entry: () => AuditEntry): Promise<void> => {
    const { operation } = call.compiled;
    try {
      await audit.record(entry());
    } catch (error) {
      log.error(
        { err: error, operation: operation.id, caller: callerKey(caller) },
        'An admin action could not be written to the audit log',
      );
    }
  };
  const watched = async (run: Run, work: Work): Promise<Answer> => {
    const { call, context } = run;
    try {
      const answer = await work();
      if (answer.status >= 400 || !run.row?.isWritten())
        await write(call, context.caller, () => entryOfRun(run, answer.status));
      run.row?.end();
      return answer;
    } catch (error) {
      await write(call, context.caller, () => entryOfRun(run, statusOf(error)));
      // Who was told that it took too long may still see it happen.
      if (statusOf(error) !== TIMEOUT) run.row?.end();
      throw error;
    }
  };

  return {
    around(call, context, input, work) {
      // Asked before the work, which may take away what the input names.
      const run = { call, context, input, about: about(call, input) };
      if (!goesWithChange(call.compiled.operation)) return watched(run, work);
      return audit.recordWith(
        () => attempted(() => entryOfRun(run, 200)),
        (row) => watched({ ...run, row }, work),
      );
    },
    readByModel(call, caller, { input, given, status }) {
      const { operation } = call.compiled;
      // Health is asked for all the time.
      if (operation.audit === false || isAudited(operation, input)) return;
      audit.recordLater(
        entryOf(call, {
          ...{ caller, status, ...targetOf(input), ...about(call, input) },
          changes: { arguments: given },
        }),
      );
    },
    async refused(call, caller, error) {
      const { surface, access } = call.compiled.operation;
      const status = statusOf(error);
      const lacksRight = surface === 'admin' && status === 403 && caller.kind === 'admin';
      const guessesKey = access === 'masterKey' && status === 401;
      if (lacksRight || guessesKey)
        await write(call, caller, () => entryOf(call, { caller, status, ...about(call, unread) }));
    },
  };
}

/** Of a call that ended before its input was read. */
const unread: DecodedInput = { params: {}, query: {}, headers: {}, body: undefined };

/** A mistake here shows, and is logged, when the call has ended. */
function attempted<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

type Work = () => Answer | Promise<Answer>;

/** A call that is written down. */
interface Run {
  readonly call: Call;
  readonly context: CallContext;
  readonly input: DecodedInput;
  readonly about: Pick<AuditEntry, 'modules'>;
  /** Where the row goes with the first change. */
  readonly row?: AccompanyingRow;
}

const TIMEOUT = 504;

const goesWithChange = ({ surface, auditAtEnd }: Operation): boolean =>
  surface === 'admin' && auditAtEnd !== true;

const entryOf = (call: Call, { status, ...entry }: Written): AuditEntry => ({
  ...entry,
  action: call.compiled.operation.id,
  outcome: outcomeOf(status),
  status,
  address: call.address,
  requestId: call.requestId,
  ...(call.userAgent === undefined ? {} : { userAgent: call.userAgent }),
});

function entryOfRun(
  { call, context: { caller, auditFacts: facts }, input, about }: Run,
  status: number,
): AuditEntry {
  const changes = facts?.changes ?? changesOf(call.compiled.operation, input);
  const target = facts?.target === undefined ? targetOf(input) : { target: facts.target };
  return entryOf(call, { caller: facts?.actor ?? caller, status, changes, ...target, ...about });
}

export const statusOf = (error: unknown): number =>
  error instanceof PenstockError ? error.status : 500;

const outcomeOf = (status: number): AuditOutcome =>
  status < 400 ? 'success' : status < 500 ? 'refused' : 'failed';

/** Path parameters name what an operation is about: `id:0190...`. */
function targetOf({ params }: DecodedInput): { readonly target?: string } {
  const parts = Object.entries(params).map(([name, value]) => `${name}:${String(value)}`);
  return parts.length === 0 ? {} : { target: parts.join(' ') };
}

/** What was asked for, without the fields that the operation declares secret. */
function changesOf(operation: Operation, { params, query, body }: DecodedInput): unknown {
  const asked = {
    ...(Object.keys(query).length > 0 ? { query } : {}),
    ...(body === undefined ? {} : { body }),
  };
  if (Object.keys(asked).length === 0) return undefined;
  if (operation.auditChanges) return operation.auditChanges({ params, query, body });
  // What users send is theirs; only what the operation names is kept.
  return operation.surface === 'admin' ? asked : undefined;
}
