import { describe, expect, it } from 'vitest';
import type { PenstockError, Problem } from '../../../kernel/errors.ts';
import { type DefinitionInput, parseDefinition } from './definition.ts';
import { format } from './expression.ts';
import { checkAgainst } from './reference-check.ts';
import { actionsGiven } from './sharing.ts';

const user: DefinitionInput = { name: 'User', relations: {}, permissions: {} };
const team: DefinitionInput = {
  name: 'Team',
  relations: { member: ['User', 'Team#member'], owner: ['User'] },
  permissions: { read: ['member', 'owner'] },
};

function problemsOf(
  input: DefinitionInput,
  others: readonly DefinitionInput[] = [user, team],
): readonly Problem[] {
  try {
    return checkAgainst(parseDefinition(input), others.map(parseDefinition));
  } catch (error) {
    return (error as PenstockError).errors ?? [];
  }
}

const doc = (parts: Partial<DefinitionInput>): DefinitionInput => ({
  name: 'Doc',
  relations: { owner: ['User', 'Team'], viewer: ['User'] },
  permissions: {},
  ...parts,
});

describe('definitions', () => {
  it('take everything that the language knows', () => {
    const input = doc({
      relations: {
        owner: ['User', 'Team', 'Team#member'],
        viewer: ['User:*', 'User with recent', '*'],
        parent_2: ['Doc'],
      },
      permissions: {
        read: ['viewer', 'owner', 'owner->read', 'parent_2->read', 'edit'],
        edit: {
          intersection: ['owner', { exclusion: { base: ['viewer'], subtract: ['banned'] } }],
        },
        banned: { every: 'parent_2->read' },
        open: ['*'],
        nobody: [],
        named: { union: [{ relation: 'owner' }, { action: 'open' }] },
      },
      conditions: {
        recent: {
          all: [
            { lt: [{ now: true }, { attribute: 'until' }] },
            { not: { exists: { context: 'blocked' } } },
          ],
        },
      },
      actAs: 'edit',
    });
    const withoutCycle = {
      ...input,
      permissions: { ...input.permissions, read: ['viewer', 'owner->read', 'parent_2->open'] },
    };
    expect(problemsOf(withoutCycle)).toEqual([]);
    const { actions } = parseDefinition(withoutCycle);
    expect([...actions].map(([name, e]) => `${name}: ${format(e)}`)).toEqual([
      'read: viewer or owner->read or parent_2->open',
      'edit: (owner and (viewer but not banned))',
      'banned: parent_2->read (all)',
      'open: *',
      'nobody: nobody',
      'named: owner or open',
    ]);
  });

  it.each<[string, Partial<DefinitionInput>, string, string]>([
    ['a type name', { name: 'Do c' }, 'name', 'name'],
    ['a relation name', { relations: { 'o-r': ['User'] } }, 'relations.o-r', 'name'],
    ['a list of types', { relations: { owner: 'User' } }, 'relations.owner', 'type'],
    [
      'an entry of a list',
      { relations: { owner: ['User', 'Team#'] } },
      'relations.owner[1]',
      'subject',
    ],
    ['a set of any type', { relations: { owner: ['*#member'] } }, 'relations.owner[0]', 'subject'],
    ['an unknown type', { relations: { owner: ['User', 'Robot'] } }, 'relations.owner[1]', 'type'],
    ['an unknown set', { relations: { owner: ['Team#boss'] } }, 'relations.owner[0]', 'relation'],
    [
      'an unknown condition',
      { relations: { owner: ['User with luck'] } },
      'relations.owner[0]',
      'condition',
    ],
    ['an action name', { permissions: { 'can read': ['owner'] } }, 'permissions.can read', 'name'],
    [
      'an unknown role',
      { permissions: { read: ['owner', 'ownr'] } },
      'permissions.read[1]',
      'role',
    ],
    ['a text instead of a list', { permissions: { read: 'owner' } }, 'permissions.read', 'type'],
    ['a number', { permissions: { read: 7 } }, 'permissions.read', 'type'],
    [
      'an arrow from no relation',
      { permissions: { read: ['x->read'] } },
      'permissions.read[0]',
      'role',
    ],
    [
      'an arrow of three',
      { permissions: { read: ['owner->a->b'] } },
      'permissions.read[0]',
      'role',
    ],
    [
      'an arrow to no action',
      { permissions: { read: ['viewer', 'owner->fly'] } },
      'permissions.read[1]',
      'arrow',
    ],
    [
      'an arrow to people',
      { permissions: { read: [{ every: 'viewer->read' }, 'owner'] } },
      'permissions.read[0]',
      'arrow',
    ],
    [
      'an arrow deep inside',
      {
        permissions: {
          read: {
            exclusion: { base: ['owner'], subtract: { intersection: ['viewer', 'owner->fly'] } },
          },
        },
      },
      'permissions.read.exclusion.subtract.intersection[1]',
      'arrow',
    ],
    [
      'an empty intersection',
      { permissions: { read: { intersection: [] } } },
      'permissions.read.intersection',
      'type',
    ],
    [
      'half an exclusion',
      { permissions: { read: { exclusion: { base: ['owner'] } } } },
      'permissions.read.exclusion',
      'type',
    ],
    [
      'an unknown form',
      { permissions: { read: { either: ['owner'] } } },
      'permissions.read',
      'expression',
    ],
    [
      '"every" without an arrow',
      { permissions: { read: { every: 'owner' } } },
      'permissions.read',
      'role',
    ],
    ['an action of itself', { permissions: { read: ['read'] } }, 'permissions.read', 'cycle'],
    [
      'a ring of actions',
      { permissions: { a: ['b'], b: ['c'], c: ['a'] } },
      'permissions.a',
      'cycle',
    ],
    ['an action to act as', { permissions: { read: ['owner'] }, actAs: 'edit' }, 'actAs', 'action'],
    ['an operator', { conditions: { c: { matches: [1, 2] } } }, 'conditions.c.matches', 'operator'],
    [
      'an operand',
      { conditions: { c: { eq: [{ env: 'x' }, 2] } } },
      'conditions.c.eq[0]',
      'operand',
    ],
    [
      'two operands',
      { conditions: { c: { any: [{ eq: [1] }] } } },
      'conditions.c.any[0].eq',
      'operands',
    ],
    [
      'two operators',
      { conditions: { c: { eq: [1, 2], ne: [1, 2] } } },
      'conditions.c',
      'condition',
    ],
  ])('refuse %s, with its place', (_, parts, path, rule) => {
    expect(problemsOf(doc(parts)).map((p) => [p.path, p.rule])).toContainEqual([path, rule]);
  });

  it('refuse what excludes something that hangs on it again, also through another type', () => {
    const folder: DefinitionInput = {
      name: 'Folder',
      relations: { doc: ['Doc'] },
      permissions: { read: ['doc->read'] },
    };
    const looping = doc({
      relations: { parent: ['Folder'], owner: ['User'] },
      permissions: { read: { exclusion: { base: ['owner'], subtract: ['parent->read'] } } },
    });
    expect(problemsOf(looping, [user, team, folder])).toMatchObject([
      { path: 'permissions.read', rule: 'exclusion' },
    ]);
  });

  it('refuse such a loop that only a set closes', () => {
    const group: DefinitionInput = {
      name: 'Group',
      relations: { doc: ['Doc'], member: ['User'] },
      permissions: { active: { exclusion: { base: ['member'], subtract: ['doc->viewer'] } } },
    };
    const closing = doc({ relations: { viewer: ['User', 'Group#active'] } });
    expect(problemsOf(closing, [user, team, group])).toMatchObject([
      { path: 'relations.viewer', rule: 'exclusion' },
    ]);
  });

  it('refuse what is too large or too deep', () => {
    const many = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`r${i}`, ['User']]));
    expect(problemsOf(doc({ relations: many }))).toMatchObject([
      { path: 'relations', rule: 'size' },
    ]);
    const nested = Array.from({ length: 12 }).reduce<unknown>(
      (inner) => ({ union: [inner, 'owner'] }),
      ['owner'],
    );
    expect(problemsOf(doc({ permissions: { read: nested } })).map((p) => p.rule)).toContain(
      'nesting',
    );
  });

  it('refuse what doubles with every action that it refers to, and take any number of alternatives', () => {
    const steps = (action: (before: string) => unknown) =>
      doc({
        permissions: Object.fromEntries([
          ['a0', ['owner']],
          ...Array.from({ length: 59 }, (_, i) => [`a${i + 1}`, action(`a${i}`)] as const),
        ]),
      });
    const doubling = steps((before) => ({
      exclusion: { base: [before], subtract: { intersection: [before, 'viewer'] } },
    }));
    expect(problemsOf(doubling)).toMatchObject([{ path: 'permissions.a7', rule: 'size' }]);
    expect(problemsOf(steps((before) => [before, before, 'viewer']))).toEqual([]);
    expect(
      problemsOf(steps((before) => ({ exclusion: { base: [before], subtract: ['viewer'] } }))),
    ).toEqual([]);
  });

  it('are asked what a relation gives, in however many ways their actions refer to one another', () => {
    const ladder = Array.from(
      { length: 59 },
      (_, i) => [`a${i + 1}`, [`a${i}`, `a${i}`, 'owner']] as const,
    );
    const input = doc({
      relations: {
        owner: ['User'],
        viewer: { types: ['User'], shareable: true },
        keeper: ['User', 'Doc#viewer'],
      },
      permissions: Object.fromEntries([
        ['a0', ['owner']],
        ...ladder,
        ['read', { exclusion: { base: ['viewer'], subtract: ['a59'] } }],
        ['close', ['keeper']],
        ['share', ['owner']],
      ]),
    });
    expect(problemsOf(input)).toEqual([]);
    const definition = parseDefinition(input);
    // Those who view are keepers by their set.
    expect(actionsGiven(definition, 'viewer')).toEqual(['read', 'close']);
    expect(actionsGiven(definition, 'keeper')).toEqual(['close']);
    expect(actionsGiven(definition, 'owner')).toHaveLength(61);
  });

  it('name every problem at once', () => {
    expect(
      problemsOf(doc({ relations: { a: ['?'], b: 'x' }, permissions: { read: ['nope'] } })).map(
        (p) => p.path,
      ),
    ).toEqual(['relations.a[0]', 'relations.b', 'permissions.read[0]']);
  });
});
