/** Questions as callers ask them: for a subject or, where a scope is given, for the scope in its place. */

import type { RecordStore } from '../../../data/records/store.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { errors, invalid, PenstockError } from '../../../kernel/errors.ts';
import { andThen, type MaybePromise } from '../../../kernel/maybe-promise.ts';
import type {
  Answer,
  AskOptions,
  ExplainOptions,
  Explanation,
  Question,
} from '../engine/engine.ts';
import { engineErrors } from '../engine/limits.ts';
import { everybodysRole } from '../engine/rule-callers.ts';
import { authorizationErrors } from '../errors.ts';
import {
  formatObject,
  formatSubject,
  isObjectId,
  type ObjectRef,
  parseObject,
  type SubjectRef,
} from '../model/grammar.ts';
import { roleAnswer } from '../role-queries.ts';
import type { Models } from './definitions/models.ts';
import { createProbedChecks } from './probed-checks.ts';
import type { RecordChecks } from './record-checks.ts';
import type { HeldRoles } from './roles.ts';
import {
  conditionsHold,
  needsFacts,
  type RuleConditions,
  type RuleFacts,
} from './rule-conditions.ts';

export interface ScopedQuestion extends Question {
  /** `Type:id`; empty counts as absent. */
  readonly scope?: string | undefined;
}

export interface Checks {
  /** False as well when the subject may not act for the scope. */
  can(question: ScopedQuestion, options?: AskOptions): Promise<boolean>;
  /** The same for records, and for whoever else knows no context: what hangs on a value of a request is not allowed. */
  holds(question: ScopedQuestion, options?: AskOptions): Promise<boolean>;
  /** The same for several, in order; all answers rest on the same state. */
  allHold(questions: readonly Question[], options?: AskOptions): Promise<readonly boolean[]>;
  /** Whether `holds`, by the statement that reads the record (`PermissionEngine.recordCheck`). */
  readonly ofRecord: RecordChecks;
  /** The same as `can` for several, where one that has no answer does not stand in the way of the others. */
  answers(questions: readonly Question[], options?: AskOptions): Promise<readonly Answer[]>;
  explain(question: ScopedQuestion, options?: ExplainOptions): Promise<Explanation>;
  /**
   * Who the question is really about: the subject, or the scope that it may act for. `undefined`
   * when it may not. This is the one rule for clients, operators and records.
   */
  acting(
    subject: SubjectRef,
    action: string,
    scope: string | undefined,
    options?: AskOptions,
  ): MaybePromise<SubjectRef | undefined>;
}

interface ChecksOptions {
  readonly database: Database;
  readonly models: Models;
}

/** The subject in whose name a scope is asked about; nothing where it may not act for the scope. */
function createActing({ database, models }: ChecksOptions): Checks['acting'] {
  const actingFor = async (
    scope: string,
    subject: SubjectRef,
    action: string,
    options?: AskOptions,
  ): Promise<SubjectRef | undefined> => {
    const object = parseObject(scope, 'scope');
    if (formatSubject(subject) === formatObject(object)) return subject;
    return models.ask(async (engine) => {
      const definition = engine.model.get(object.type);
      if (!definition) throw invalid('scope', 'type', `no type is called "${object.type}"`);
      const gate = definition.actAs ?? action;
      if (!engine.model.action(object.type, gate)) return undefined;
      const [allowed] = await engine.check(
        database,
        [{ subject, action: gate, resource: object }],
        options,
      );
      if (allowed !== true) return undefined;
      // Who may only represent it may not delete it because it may delete itself.
      return { ...plain(object), ...(gate !== action && { represented: true as const }) };
    });
  };
  return (subject, action, scope, options) =>
    isScope(scope) ? actingFor(scope, subject, action, options) : subject;
}

const isScope = (scope: string | undefined): scope is string => scope !== undefined && scope !== '';

export function createChecks({ database, models }: ChecksOptions): Checks {
  const acting = createActing({ database, models });
  const check = createProbedChecks({ database, models });
  const canFor: Checks['can'] = async ({ scope, ...question }, options) => {
    const subject = await acting(question.subject, question.action, scope, options);
    return subject ? check.alone({ ...question, subject }, options) : false;
  };
  const can: Checks['can'] = (question, options) =>
    isScope(question.scope) ? canFor(question, options) : check.alone(question, options);
  const answers: Checks['answers'] = async (questions, options) =>
    (await check.together(questions, options)) ??
    models.ask((engine) => engine.answers(database, questions, options));

  return {
    acting,
    can,
    answers,
    ofRecord: check.ofRecord,
    holds: (question, options) => unlessUndecided(can(question, options), false),
    async allHold(questions, options) {
      const found = await answers(questions, options);
      const failed = found.find(({ undecided }) => undecided && !isUndecided(undecided));
      if (failed?.undecided) throw failed.undecided;
      return found.map(({ allowed }) => allowed);
    },
    async explain({ scope, ...question }, options) {
      const subject = await acting(question.subject, question.action, scope, options);
      if (subject)
        return models.ask((engine) => engine.explain(database, { ...question, subject }, options));
      const because = `${formatSubject(question.subject)} may not act for the scope ${scope}`;
      return {
        kind: 'action',
        refusedScope: parseObject(scope ?? '', 'scope'),
        allowed: false,
        about: `${scope} ${question.action}`,
        because,
        parts: [],
        outcome: 'denied',
        missing: [],
        wouldAllow: [],
      };
    },
  };
}

const isUndecided = (error: unknown): boolean =>
  codeOf(error) === engineErrors.CONTEXT_MISSING.code;

/** What hangs on a value of a request, where there is none to be given, comes to this. */
export async function unlessUndecided<T>(asked: MaybePromise<T>, undecided: T): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    if (isUndecided(error)) return undecided;
    throw error;
  }
}

/** An object as a subject. */
export const plain = ({ type, id }: ObjectRef): SubjectRef => ({ type, id, relation: '' });

/* The check of the 0.16 line: a permission of a role, a rule, or a relation may allow (spec/authorization.md 2.2). */

export interface LegacyQuestion {
  readonly userId: string;
  /** Name of a type. */
  readonly resource: string;
  readonly action: string;
  /** Absent: only what holds for every resource counts. */
  readonly resourceId?: string | undefined;
}

export type LegacyCheck = (question: LegacyQuestion) => Promise<boolean>;

interface Dependencies {
  readonly database: Database;
  readonly records: RecordStore;
  readonly schemas: SchemaRegistry;
  readonly models: Models;
  readonly checks: Checks;
  readonly heldRoles: HeldRoles;
}

const asModule = system('authorization');

export function createLegacyCheck({
  database,
  records,
  schemas,
  models,
  checks,
  heldRoles,
}: Dependencies): LegacyCheck {
  const read = async (schema: string, id: string | undefined): Promise<RuleFacts['record']> => {
    if (id === undefined || !schemas.get(schema)) return undefined;
    try {
      return JSON.parse((await records.get(asModule, schema, id)).json) as RuleFacts['record'];
    } catch (error) {
      if (error instanceof PenstockError && error.status === 404) return undefined;
      throw error;
    }
  };

  async function rulesAllow(
    rules: readonly RuleConditions[],
    { userId, resource, resourceId }: LegacyQuestion,
  ): Promise<boolean> {
    if (rules.some((conditions) => !needsFacts(conditions))) return true;
    if (rules.length === 0) return false;
    const [record, caller] = await Promise.all([read(resource, resourceId), read('User', userId)]);
    return rules.some((conditions) => conditionsHold(conditions, { record, caller }));
  }

  return async (question) => {
    const { userId, resource, action, resourceId } = question;
    if (resourceId !== undefined && !isObjectId(resourceId))
      throw invalid('resourceId', 'id', 'holds no space and none of : # @ * ,');
    const { permissions, conditions } = await roleAnswer(database, {
      held: await heldRoles(userId),
      everybody: everybodysRole,
      resource,
      action,
    });
    if (covers(permissions, resource, action) || (await rulesAllow(conditions, question)))
      return true;
    const { model } = await models.engine();
    // Types that only roles and rules know are no error here.
    if (resourceId === undefined || !model.action(resource, action)) return false;
    const subject = { type: 'User', id: userId, relation: '' };
    return checks.can({
      subject,
      action,
      resource: parseObject(`${resource}:${resourceId}`, 'resourceId'),
    });
  };
}

/** `resource:action`, where `*` stands for any on either side. */
function covers(permissions: readonly string[], resource: string, action: string): boolean {
  const held = new Set(permissions);
  return [`${resource}:${action}`, `${resource}:*`, `*:${action}`, '*:*'].some((permission) =>
    held.has(permission),
  );
}

/* What callers are to permissions: trusted with everything, or subjects. */

/** Operators and the platform itself. */
export const isTrusted = (caller: Caller): boolean =>
  caller.kind === 'admin' || caller.kind === 'system';

/** Throws 401 for everybody who is no user. */
export function userSubject(caller: Caller): SubjectRef {
  if (caller.kind !== 'user') throw errors.UNAUTHORIZED();
  return { type: 'User', id: caller.userId, relation: '' };
}

export const scopeRefused = (action: string, scope: string | undefined) =>
  authorizationErrors.SCOPE_REFUSED({
    message: `You may not ${action} for ${scope}: that takes the action "${action}" on it, or the one that the definition of its type names under actAs`,
  });

/** Who asks: the caller, or the scope; `undefined` where the caller may not act for it in this way. Throws 401. */
export function actorOf(
  checks: Pick<Checks, 'acting'>,
  caller: Caller,
  action: string,
  scope: string | undefined,
): MaybePromise<SubjectRef | undefined> {
  const acting = checks.acting(userSubject(caller), action, scope);
  return acting instanceof Promise ? unlessUndecided(acting, undefined) : acting;
}

/** The same. Throws 403 in place of nobody. */
export const subjectOf = (
  checks: Pick<Checks, 'acting'>,
  caller: Caller,
  action: string,
  scope: string | undefined,
): MaybePromise<SubjectRef> =>
  andThen(actorOf(checks, caller, action, scope), (subject) => {
    if (!subject) throw scopeRefused(action, scope);
    return subject;
  });
