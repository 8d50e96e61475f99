/** Makes the engine of one model (engine.ts). */
import type { Model } from '../model/model.ts';
import type { Reach } from './ascend.ts';
import { checkAll } from './ask.ts';
import { directRelations } from './direct-relations.ts';
import type { Engine } from './engine.ts';
import { explain } from './explain.ts';
import type { KeptReach } from './kept-reach.ts';
import { listResources } from './list-resources.ts';
import { listSubjects } from './list-subjects.ts';
import { type Memory, rowPredicate } from './predicate.ts';
import { probe } from './probe.ts';
import { createSizeHints } from './size-hints.ts';

let engines = 0;

/** With `reach`, what subjects reach is kept there. It may serve several engines. */
export function createEngine(model: Model, reach?: KeptReach<Reach>): Engine {
  const memory: Memory = { sizes: createSizeHints(), reach, scope: String(++engines), plans: new WeakMap() };
  return {
    model,
    check: (database, questions, options) => checkAll({ model, database }, questions, options),
    probe: (database, question, options) => probe({ model, database }, question, options),
    explain: (database, question, options) => explain({ model, database }, question, options),
    listResources: (database, question, options) => listResources({ model, database }, question, options),
    listSubjects: (database, question, options) => listSubjects({ model, database }, question, options),
    directRelations: (database, subject, resource) => directRelations({ model, database }, subject, resource),
    predicate: (database, question, catchUp) => rowPredicate({ model, database }, question, memory, catchUp),
  };
}
