/** Questions as callers ask them: for a subject or, where a scope is given, for the scope in its place. */
import type { Database } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { AskOptions, Engine, Question, Reason } from '../engine/engine.ts';
import { formatObject, formatSubject, type ObjectRef, parseObject, type SubjectRef } from '../model/grammar.ts';
import type { Models } from './models.ts';

export interface ScopedQuestion extends Question {
  /** `Type:id`; empty counts as absent. */
  readonly scope?: string | undefined;
}

export interface Checks {
  /** False as well when the subject may not act for the scope. */
  can(question: ScopedQuestion, options?: AskOptions): Promise<boolean>;
  /** Answers in order; all of them rest on the same state. */
  canAll(questions: readonly Question[], options?: AskOptions): Promise<readonly boolean[]>;
  explain(question: ScopedQuestion, options?: AskOptions): Promise<Reason>;
  /**
   * Who the question is really about: the subject, or the scope that it may act for. `undefined`
   * when it may not. This is the one rule for clients, operators and records.
   */
  acting(subject: SubjectRef, action: string, scope: string | undefined, options?: AskOptions): Promise<SubjectRef | undefined>;
}

export function createChecks({ database, models }: { readonly database: Database; readonly models: Models }): Checks {
  const acting: Checks['acting'] = async (subject, action, scope, options) => {
    if (scope === undefined || scope === '') return subject;
    const object = parseObject(scope, 'scope');
    if (formatSubject(subject) === formatObject(object)) return subject;
    return models.ask(async (engine) => {
      const definition = engine.model.get(object.type);
      if (!definition) throw invalid('scope', 'type', `no type is called "${object.type}"`);
      const gate = definition.actAs ?? action;
      if (!engine.model.action(object.type, gate)) return undefined;
      const [allowed] = await engine.check(database, [{ subject, action: gate, resource: object }], options);
      return allowed === true ? plain(object) : undefined;
    });
  };

  const worth = probeWorth();

  const check = async (question: Question, options?: AskOptions): Promise<boolean> => {
    const walk = async (engine: Engine): Promise<boolean> => (await engine.check(database, [question], options))[0] === true;
    // What a transaction sees of definitions, nobody else may know.
    if (database.inTransaction() || !worth.asks(question)) return models.ask(walk);
    const engine = await models.believed();
    const probed = await engine.probe(database, question, options);
    if (probed?.revision !== engine.model.revision) return models.ask(walk);
    worth.note(question, probed.allowed !== undefined);
    // The probe has told that these definitions are in force: nobody needs to ask again.
    return probed.allowed ?? walk(engine);
  };

  return {
    acting,
    async can({ scope, ...question }, options) {
      const subject = await acting(question.subject, question.action, scope, options);
      return subject ? check({ ...question, subject }, options) : false;
    },
    canAll: (questions, options) => models.ask((engine) => engine.check(database, questions, options)),
    async explain({ scope, ...question }, options) {
      const subject = await acting(question.subject, question.action, scope, options);
      if (subject) return models.ask((engine) => engine.explain(database, { ...question, subject }, options));
      const because = `${formatSubject(question.subject)} may not act for the scope ${scope}`;
      return { allowed: false, about: `${scope} ${question.action}`, because, parts: [] };
    },
  };
}

/** Questions of a kind after which it is decided whether the probe is worth its statement. */
const PROBE_SAMPLE = 64;
/** Kinds that are remembered: resource types with their actions. */
const MAX_PROBE_KINDS = 1_000;

/**
 * Whether probes are worth their statement, per type and action: where most questions are decided by
 * arrows or sets, a probe only comes before the walk. A new sample is taken now and then.
 */
function probeWorth() {
  const kinds = new Map<string, { asked: number; settled: number }>();
  const keyOf = ({ resource, action }: Question): string => `${resource.type}#${action}`;
  return {
    asks(question: Question): boolean {
      const kind = kinds.get(keyOf(question));
      if (!kind || kind.asked < PROBE_SAMPLE || kind.settled * 4 >= PROBE_SAMPLE) return true;
      // Begins a new sample now and then: rights are shared in other ways over time.
      kind.asked += 1;
      if (kind.asked >= PROBE_SAMPLE * 64) kinds.delete(keyOf(question));
      return false;
    },
    note(question: Question, settled: boolean): void {
      const key = keyOf(question);
      if (kinds.size >= MAX_PROBE_KINDS && !kinds.has(key)) kinds.clear();
      const kind = kinds.get(key) ?? { asked: 0, settled: 0 };
      if (kind.asked >= PROBE_SAMPLE) Object.assign(kind, { asked: 0, settled: 0 });
      kind.asked += 1;
      if (settled) kind.settled += 1;
      kinds.set(key, kind);
    },
  };
}

/** An object as a subject. */
export const plain = ({ type, id }: ObjectRef): SubjectRef => ({ type, id, relation: '' });
