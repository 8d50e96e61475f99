/**
 * Relations that users give each other: marked in the definition (`"reader": {"types": ["User"], "shareable": true}`), given
 * by whoever may `share` the object, and by nobody who may do less than the relation gives.
 */
import type { Problem } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import { childrenOf, type Expression } from './expression.ts';
import { ownerRelation } from './grammar.ts';

/** The action that lets somebody share an object. A type without it shares nothing. */
export const shareAction = 'share';

/** Their members are changed by routes of their own, which know more than relations say. */
const closedTypes: ReadonlySet<string> = new Set(['User', 'Team', 'Role']);

export interface RelationLists {
  /** Relations with nothing but their lists of those who may stand in them. */
  readonly lists: Readonly<Record<string, unknown>>;
  readonly shareable: ReadonlySet<string>;
  /** Relations that take just what their lists name, and whose sets arrows go through. */
  readonly strict: ReadonlySet<string>;
}

const unknownMark = (mark: string): string =>
  mark === 'from'
    ? 'stands alone: the field says which types the relation takes'
    : 'is not known: there are types, shareable and strict';

/** Takes the marks off relations that are written as objects with `types`. */
export function relationLists(
  relations: Readonly<Record<string, unknown>>,
  problems: Problem[],
): RelationLists {
  const marked = { shareable: new Set<string>(), strict: new Set<string>() };
  const entries = Object.entries(relations).map(([name, value]): [string, unknown] => {
    if (typeof value !== 'object' || value === null || !('types' in value)) return [name, value];
    const { types, ...marks } = value as Record<string, unknown>;
    for (const [mark, set] of Object.entries(marks)) {
      const path = `relations.${cutText(name, 64)}.${cutText(mark, 64)}`;
      if (mark !== 'shareable' && mark !== 'strict') {
        problems.push({ path, rule: 'unknown', message: unknownMark(mark) });
      } else if (typeof set !== 'boolean')
        problems.push({ path, rule: 'type', message: 'must be true or false' });
      else if (set) marked[mark].add(name);
    }
    return [name, types];
  });
  return { lists: Object.fromEntries(entries), ...marked };
}

/** An entry of a relation's list, as far as it matters here. */
interface Entry {
  readonly wildcard: boolean;
  readonly condition: string | undefined;
}

interface Shared {
  readonly name: string;
  readonly relations: ReadonlyMap<string, readonly Entry[]>;
  readonly actions: ReadonlyMap<string, Expression>;
  readonly shareable: ReadonlySet<string>;
}

/** What is wrong with the marks of a definition. */
export function sharingProblems(definition: Shared): readonly Problem[] {
  const { name, actions, shareable } = definition;
  return [...shareable].flatMap((relation) => {
    const problem = (rule: string, message: string): Problem[] => [
      { path: `relations.${relation}.shareable`, rule, message },
    ];
    if (closedTypes.has(name)) return problem('type', `${name} has routes of its own for this`);
    if (!actions.has(shareAction))
      return problem('action', `needs an action "${shareAction}": it says who may share`);
    // Who owns an object is not decided by those whom they let share it.
    if (relation === ownerRelation)
      return problem('relation', 'who owns an object is not shared, and not taken by sharing');
    if (!(definition.relations.get(relation) ?? []).some(isPlain))
      return problem('subject', 'needs a type without a condition, such as User');
    if (subtracts(definition, relation))
      return problem('exclusion', 'takes rights away from somebody: only operators do that');
    return [];
  });
}

const isPlain = ({ wildcard, condition }: Entry): boolean => !wildcard && condition === undefined;

/** Whether somebody can lose something by standing in the relation. */
function subtracts({ actions }: Pick<Shared, 'actions'>, relation: string): boolean {
  const mentions = remembering(actions, (expression, ofAction) => {
    const look = (one: Expression): boolean => {
      if (one.kind === 'action') return ofAction(one.action);
      if (one.kind === 'relation' || one.kind === 'arrow') return one.relation === relation;
      return childrenOf(one).some(look);
    };
    return look(expression);
  });
  const takes = (expression: Expression): boolean =>
    (expression.kind === 'exclusion' && mentions(expression.subtract)) ||
    childrenOf(expression).some(takes);
  return [...actions.values()].some(takes);
}

/** What a relation can lead to within its type. */
interface Giving {
  readonly name: string;
  readonly relations: ReadonlyMap<
    string,
    readonly { readonly type: string; readonly relation: string }[]
  >;
  readonly actions: ReadonlyMap<string, Expression>;
}

/**
 * The actions that somebody may get by standing in the relation, alone or with something else; also by relations that
 * take those who stand in it as a set (`"manager": ["Note#editor"]`).
 */
export function actionsGiven(definition: Giving | undefined, relation: string): readonly string[] {
  if (!definition) return [];
  const stands = new Set([relation]);
  for (;;) {
    const given = actionsBy(definition.actions, stands);
    const words = new Set([...stands, ...given]);
    const more = [...definition.relations].filter(
      ([name, subjects]) =>
        !stands.has(name) &&
        subjects.some((one) => one.type === definition.name && words.has(one.relation)),
    );
    if (more.length === 0) return given;
    for (const [name] of more) stands.add(name);
  }
}

/** Those of the actions that one of the relations can lead to. */
function actionsBy(
  actions: ReadonlyMap<string, Expression>,
  relations: ReadonlySet<string>,
): readonly string[] {
  const leadsTo = remembering(actions, (expression, ofAction) => {
    const look = (one: Expression): boolean => {
      switch (one.kind) {
        case 'relation':
        case 'arrow':
          return relations.has(one.relation);
        case 'action':
          return ofAction(one.action);
        case 'exclusion':
          return look(one.base);
        case 'union':
        case 'intersection':
          return one.of.some(look);
        default:
          return false;
      }
    };
    return look(expression);
  });
  return [...actions].flatMap(([action, expression]) => (leadsTo(expression) ? [action] : []));
}

/**
 * Asks expressions, and each action that they refer to once: actions may refer to one another in more ways than anybody
 * could follow. None may be defined by itself.
 */
function remembering(
  actions: ReadonlyMap<string, Expression>,
  ask: (expression: Expression, ofAction: (action: string) => boolean) => boolean,
): (expression: Expression) => boolean {
  const known = new Map<string, boolean>();
  const ofAction = (action: string): boolean => {
    const before = known.get(action);
    if (before !== undefined) return before;
    const expression = actions.get(action);
    const answer = expression !== undefined && ask(expression, ofAction);
    known.set(action, answer);
    return answer;
  };
  return (expression) => ask(expression, ofAction);
}
