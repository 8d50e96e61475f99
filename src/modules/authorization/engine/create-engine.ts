/** Makes the engine of one model (engine.ts). */
import type { Queryable } from '../../../kernel/database/database.ts';
import { endedBy } from '../../../kernel/maybe-promise.ts';
import type { Metrics } from '../../../kernel/telemetry/metrics.ts';
import type { Model } from '../model/model.ts';
import { answerAll, checkAll, directRelations, type EngineScope } from './ask.ts';
import type { Engine } from './engine.ts';
import { explain } from './explain.ts';
import type { GrantCache } from './grant-cache/grant-cache.ts';
import { createHeldReaches } from './held-reach.ts';
import type { SizeLimits } from './limits.ts';
import { listResources } from './lists.ts';
import { probe } from './probe.ts';
import type { ReachableSet } from './reverse-expansion.ts';
import { createLargeSets } from './rows/named-sets.ts';
import { createPlansOfNothing, type PredicateCache } from './rows/row-plans.ts';
import { rowPredicate } from './rows/row-predicate.ts';
import { createSizeEstimates } from './rows/size-estimate.ts';
import { lookUpCaller } from './rule-callers.ts';
import { listSubjects } from './subject-lists.ts';
import { searchFromSubject } from './subject-search.ts';

let engines = 0;

/** With `reach`, what subjects reach is kept there. It may serve several engines. `told`: see `RuleScope`. */
export function createEngine(
  model: Model,
  reach?: GrantCache<ReachableSet>,
  sizes?: SizeLimits,
  told?: EngineScope['told'],
): Engine {
  const memory: PredicateCache = {
    sizes: createSizeEstimates(),
    reach,
    scope: String(++engines),
    plans: new WeakMap(),
    plansOfNothing: createPlansOfNothing(),
    large: createLargeSets(),
  };
  const held = createHeldReaches(memory);
  const scopeOf = (database: Queryable): EngineScope => ({
    model,
    database,
    search: searchFromSubject,
    callers: lookUpCaller,
    ...(sizes && { sizes }),
    ...(told && { told }),
  });
  return {
    model,
    check: (database, questions, options) => checkAll(scopeOf(database), questions, options),
    answers: (database, questions, options) => answerAll(scopeOf(database), questions, options),
    probe: (database, question, options, reach) =>
      probe(scopeOf(database), question, { options, held }, reach ?? 'object'),
    explain: (database, question, options) => explain(scopeOf(database), question, options),
    listResources: (database, question, options) =>
      listResources(scopeOf(database), question, options),
    listSubjects: (database, question, options) =>
      listSubjects(scopeOf(database), question, options, memory.large),
    directRelations: (database, subject, resource) =>
      directRelations(scopeOf(database), subject, resource),
    predicate: (database, question, catchUp) =>
      rowPredicate(scopeOf(database), question, memory, catchUp),
  };
}

/* Counts and times what the engine answers. */

/** Puts measuring around engines. Makes its metrics once: call it once per process. */
export function createMeasure(metrics: Metrics): (engine: Engine) => Engine {
  const answers = metrics.counter('authorization_answers_total', 'Answers to permission checks', [
    'answer',
  ]);
  const duration = metrics.histogram(
    'authorization_question_duration_seconds',
    'Time of permission questions by kind',
    ['kind'],
  );
  const timers = new Map(
    ['check', 'explain', 'list', 'who', 'rows'].map((kind) => [kind, duration.bind({ kind })]),
  );

  const timed = async <T>(kind: string, work: Promise<T>): Promise<T> => {
    const begin = performance.now();
    try {
      return await work;
    } finally {
      timers.get(kind)?.((performance.now() - begin) / 1000);
    }
  };

  return (engine) => ({
    ...engine,
    async check(...question) {
      const found = await timed('check', engine.check(...question)).catch((error: unknown) => {
        answers.inc({ answer: 'error' });
        throw error;
      });
      for (const allowed of found) answers.inc({ answer: allowed ? 'allowed' : 'denied' });
      return found;
    },
    async answers(...question) {
      const found = await timed('check', engine.answers(...question));
      for (const { allowed, undecided } of found)
        answers.inc({ answer: undecided ? 'error' : allowed ? 'allowed' : 'denied' });
      return found;
    },
    probe(...question) {
      const begin = performance.now();
      return engine.probe(...question).then((found) => {
        // What it does not decide is counted as the check that follows.
        if (found?.allowed === undefined) return found;
        timers.get('check')?.((performance.now() - begin) / 1000);
        answers.inc({ answer: found.allowed ? 'allowed' : 'denied' });
        return found;
      });
    },
    explain: (...question) => timed('explain', engine.explain(...question)),
    listResources: (...question) => timed('list', engine.listResources(...question)),
    listSubjects: (...question) => timed('who', engine.listSubjects(...question)),
    predicate(...question) {
      const begin = performance.now();
      return endedBy(
        () => engine.predicate(...question),
        () => timers.get('rows')?.((performance.now() - begin) / 1000),
      );
    },
  });
}
