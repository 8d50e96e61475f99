/** Makes the engine of one model (engine.ts). */
import type { Queryable } from '../../../kernel/database/database.ts';
import type { Model } from '../model/model.ts';
import { answerAll, checkAll, directRelations, type EngineScope } from './ask.ts';
import { lookUpCaller } from './caller-facts.ts';
import type { Engine } from './engine.ts';
import { explain } from './explain.ts';
import type { GrantCache } from './grant-cache/grant-cache.ts';
import { listResources } from './lists.ts';
import { probe } from './probe.ts';
import type { ReachableSet } from './reverse-expansion.ts';
import { createLargeSets } from './rows/named-sets.ts';
import { type PredicateCache, rowPredicate } from './rows/row-predicate.ts';
import { createSizeEstimates } from './rows/size-estimate.ts';
import { listSubjects } from './subject-lists.ts';
import { searchFromSubject } from './subject-search.ts';

let engines = 0;

/** With `reach`, what subjects reach is kept there. It may serve several engines. */
export function createEngine(model: Model, reach?: GrantCache<ReachableSet>): Engine {
  const memory: PredicateCache = {
    sizes: createSizeEstimates(),
    reach,
    scope: String(++engines),
    plans: new WeakMap(),
    large: createLargeSets(),
  };
  const scopeOf = (database: Queryable): EngineScope => ({
    model,
    database,
    search: searchFromSubject,
    callers: lookUpCaller,
  });
  return {
    model,
    check: (database, questions, options) => checkAll(scopeOf(database), questions, options),
    answers: (database, questions, options) => answerAll(scopeOf(database), questions, options),
    probe: (database, question, options, reach) =>
      probe(scopeOf(database), question, options, reach),
    explain: (database, question, options) => explain(scopeOf(database), question, options),
    listResources: (database, question, options) =>
      listResources(scopeOf(database), question, options),
    listSubjects: (database, question, options) =>
      listSubjects(scopeOf(database), question, options),
    directRelations: (database, subject, resource) =>
      directRelations(scopeOf(database), subject, resource),
    predicate: (database, question, catchUp) =>
      rowPredicate(scopeOf(database), question, memory, catchUp),
  };
}
