/** Names that need no tuple. */
import { isExact, mayBeOpen } from '../model/ascent.ts';
import type { Model, Name } from '../model/model.ts';

/** True when everybody has the name on every object. */
export const isPublic = (model: Model, name: Name): boolean => mayBeOpen(model, name) && isExact(model, name);
