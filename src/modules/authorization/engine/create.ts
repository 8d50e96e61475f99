/** Makes the engine of one model (engine.ts). */
import type { Model } from '../model/model.ts';
import { checkAll } from './ask.ts';
import { directRelations } from './direct-relations.ts';
import type { Engine } from './engine.ts';
import { explain } from './explain.ts';
import { createSizeHints } from './few-rows.ts';
import { listResources } from './list-resources.ts';
import { listSubjects } from './list-subjects.ts';
import { rowPredicate } from './predicate.ts';

export function createEngine(model: Model): Engine {
  const sizes = createSizeHints();
  return {
    model,
    check: (database, questions, options) => checkAll({ model, database }, questions, options),
    explain: (database, question, options) => explain({ model, database }, question, options),
    listResources: (database, question, options) => listResources({ model, database }, question, options),
    listSubjects: (database, question, options) => listSubjects({ model, database }, question, options),
    directRelations: (database, subject, resource) => directRelations({ model, database }, subject, resource),
    predicate: (database, question) => rowPredicate({ model, database }, question, sizes),
  };
}
