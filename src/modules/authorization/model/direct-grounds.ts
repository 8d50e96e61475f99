/**
 * Relations of a resource that are enough by themselves: whoever stands in one of them has the name that is asked
 * about, whatever else is stored. That is so where a relation is an alternative, and nothing is subtracted from it or
 * asked for beside it.
 */
import type { Expression } from './expression.ts';
import type { SubjectRef } from './grammar.ts';
import { grantRelation, keyOf, type Model, type Name } from './model.ts';
import { fits } from './validity.ts';

/** The relations for one form of subject. Depends on the model alone. */
export interface DirectGrounds {
  /** Everybody has the name. */
  readonly everyone: boolean;
  /** Relations in which the subject itself may stand without a condition. */
  readonly own: readonly string[];
  /** Relations in which everybody of the subject's type may stand without a condition. */
  readonly everybody: readonly string[];
  /** There is no other way: whoever stands in none of these relations does not have the name. */
  readonly complete: boolean;
}

/** The grounds of a name for a subject; of its id matters only whether it means everybody. */
export function directGrounds(model: Model, name: Name, { type, id, relation }: SubjectRef): DirectGrounds {
  const wildcard = id === '*';
  return model.derived(`grounds ${keyOf(name)} ${type}#${relation}${wildcard ? ':*' : ''}`, () => {
    const { everyone, relations, complete } = alternatives(model, name);
    const standing = (form: SubjectRef): readonly string[] =>
      relations.filter((r) => fits(model, { subject: form, relation: r, resource: { type: name.type, id: '' } }));
    return {
      everyone,
      own: standing({ type, id, relation }),
      everybody: relation === '' && !wildcard ? standing({ type, id: '*', relation: '' }) : [],
      // A subject set is in itself, also where no tuple says so.
      complete: complete && relation === '',
    };
  });
}

interface Alternatives {
  everyone: boolean;
  complete: boolean;
  readonly relations: readonly string[];
}

function alternatives(model: Model, start: Name): Alternatives {
  const relations = new Set<string>();
  const found = { everyone: false, complete: true };
  const seen = new Set<string>();
  const visit = (name: Name): void => {
    if (seen.has(keyOf(name))) return;
    seen.add(keyOf(name));
    if (name.kind === 'relation') {
      relations.add(name.name);
      if (!isPlainRelation(model, name)) found.complete = false;
      return;
    }
    relations.add(grantRelation(name.name));
    const expression = model.expression(name);
    if (expression) enter(expression);
  };
  const enter = (expression: Expression): void => {
    switch (expression.kind) {
      case 'none':
        return;
      case 'everyone':
        found.everyone = true;
        return;
      case 'relation':
        visit({ type: start.type, kind: 'relation', name: expression.relation });
        return;
      case 'action':
        visit({ type: start.type, kind: 'action', name: expression.action });
        return;
      case 'union':
        for (const each of expression.of) enter(each);
        return;
      default:
        found.complete = false;
    }
  };
  visit(start);
  return { ...found, relations: [...relations] };
}

/** Takes neither sets nor conditions. */
const isPlainRelation = (model: Model, { type, name }: Name): boolean =>
  (model.get(type)?.relations.get(name) ?? []).every((allowed) => allowed.relation === '' && allowed.condition === undefined);
