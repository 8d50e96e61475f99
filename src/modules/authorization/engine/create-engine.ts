/** Makes the engine of one model (engine.ts). */
import type { Queryable } from '../../../kernel/database/database.ts';
import type { Model } from '../model/model.ts';
import { answerAll, checkAll, directRelations, type EngineScope } from './ask.ts';
import type { Engine } from './engine.ts';
import { explain } from './explain.ts';
import type { GrantCache } from './grant-cache/grant-cache.ts';
import { createHeldReaches } from './held-reach.ts';
import type { SizeLimits } from './limits.ts';
import { listResources } from './lists.ts';
import { probe, probeAll } from './probe.ts';
import { recordProbe } from './record-probe.ts';
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
  reach?: GrantCache,
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
    probeAll: (database, questions, options, reach) =>
      probeAll(scopeOf(database), questions, { options, held }, reach),
    recordProbe: (database, question, reach) =>
      recordProbe(scopeOf(database), question, reach, held),
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
