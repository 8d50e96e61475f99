/** How objects and subjects are written, and what follows from a model: which tuples fit, which can matter, and how to get from a subject to what it may act on. */
import { describe, expect, it } from 'vitest';
import { footprintOf } from '../engine/tuple-loading.ts';
import { type DefinitionInput, parseDefinition } from './definition.ts';
import { expansionTo, isExact, isIncluded, mayBeOpen, rulesTo } from './expansion-rules.ts';
import { formatObject, formatSubject, parseObject, parseSubject } from './grammar.ts';
import { buildModel, keyOf, type Name } from './model.ts';
import { fits, type Tuple, tupleProblem } from './tuple.ts';

const model = buildModel(
  [
    { name: 'User', relations: {}, permissions: {} },
    {
      name: 'Team',
      relations: { member: ['User', 'Team#member'], owner: ['User'] },
      permissions: { read: ['owner'] },
    },
    {
      name: 'Folder',
      relations: { parent: ['Folder'], viewer: ['User', 'Team#member'] },
      permissions: { read: ['viewer', 'parent->read'], open: ['*'] },
    },
    {
      name: 'Doc',
      relations: {
        folder: ['Folder'],
        owner: ['User', 'Team'],
        guest: ['User with recent', 'User:*'],
        banned: ['User'],
      },
      permissions: {
        read: ['owner', 'owner->read', 'folder->read'],
        visit: ['guest'],
        write: { exclusion: { base: ['read'], subtract: ['banned'] } },
        glance: ['folder->open'],
      },
      conditions: { recent: { lt: [{ now: true }, { attribute: 'until' }] } },
    },
  ].map(parseDefinition),
  1,
);

const action = (type: string, name: string): Name => ({ type, kind: 'action', name });

function tuple(text: string, condition?: string): Tuple {
  const [subject = '', relation = '', resource = ''] = text.split(' ');
  return {
    subject: parseSubject(subject, 'subject'),
    relation,
    resource: parseObject(resource, 'resource'),
    condition,
  };
}

describe('tuples', () => {
  it.each([
    tuple('User:a owner Doc:1'),
    tuple('User:* owner Doc:1'),
    tuple('Team:t#member viewer Folder:f'),
    tuple('Team:t#member member Team:t'),
    tuple('User:* guest Doc:1'),
    tuple('User:a guest Doc:1', 'recent'),
    tuple('User:a can:read Doc:1'),
  ])('fit %#', (one) =>
    expect([fits(model, one), tupleProblem(model, one)]).toEqual([true, undefined]),
  );

  it.each<[Tuple, string, string]>([
    [tuple('Robot:a owner Doc:1'), 'subject', 'type'],
    [tuple('User:a owner Robot:1'), 'resource', 'type'],
    [tuple('User:a reader Doc:1'), 'relation', 'relation'],
    [tuple('Folder:f owner Doc:1'), 'subject', 'type'],
    [tuple('Team:t#member owner Doc:1'), 'subject', 'type'],
    [tuple('Team:t#owner viewer Folder:f'), 'subject', 'type'],
    [tuple('User:a guest Doc:1'), 'condition', 'condition'],
    [tuple('User:a guest Doc:1', 'old'), 'condition', 'condition'],
    [tuple('User:a owner Doc:1', 'recent'), 'condition', 'condition'],
    [tuple('User:a can:fly Doc:1'), 'permission', 'action'],
    [tuple('User:a can:read Doc:1', 'recent'), 'condition', 'condition'],
    [tuple('Team:t#member can:read Doc:1'), 'subject', 'type'],
    [tuple(`User:${'ü'.repeat(1024)} owner Doc:${'y'.repeat(1024)}`), 'subject', 'length'],
  ])('do not fit %#, with the reason and the place', (one, path, rule) => {
    expect(tupleProblem(model, one)?.errors).toMatchObject([{ path, rule }]);
  });

  it('say who would fit', () => {
    expect(tupleProblem(model, tuple('Folder:f guest Doc:1'))?.message).toContain(
      'User with recent, User:*',
    );
  });
});

describe('what a question can touch', () => {
  it('is found once, across types', () => {
    const footprint = footprintOf(model, action('Doc', 'read'));
    expect(footprint.probes.map((p) => p.join('.')).sort()).toEqual([
      'Doc.can:read',
      'Doc.owner',
      'Folder.can:read',
      'Folder.viewer',
      'Team.can:read',
      'Team.member',
      'Team.owner',
    ]);
    expect(footprint.follows.map((f) => f.join('.')).sort()).toEqual([
      'Doc.folder.Folder',
      'Doc.owner.Team',
      'Folder.parent.Folder',
    ]);
    expect(footprint.sets.map((s) => s.join('.')).sort()).toEqual(['Folder.viewer', 'Team.member']);
    expect(footprintOf(model, action('Doc', 'read'))).toBe(footprint);
  });
});

describe('the way up', () => {
  it('leads through arrows and sets', () => {
    const rules = rulesTo(model, action('Doc', 'read'));
    expect(rules.direct.map((r) => r.relation).sort()).toEqual(['can:read', 'owner']);
    expect(rules.steps.map((s) => `${s.fromName} ${s.relation}`)).toEqual([
      'Team#action:read owner',
      'Folder#action:read folder',
    ]);
    const expansion = expansionTo(model, [action('Folder', 'read')]);
    expect([...expansion.names.keys()].sort()).toEqual([
      'Folder#action:read',
      'Team#relation:member',
    ]);
    expect(
      expansion.steps
        .map((s) => `${s.fromName}${s.setRelation && `#${s.setRelation}`} ${s.relation} ${s.name}`)
        .sort(),
    ).toEqual([
      'Folder#action:read parent Folder#action:read',
      'Team#relation:member#member member Team#relation:member',
      'Team#relation:member#member viewer Folder#action:read',
    ]);
  });

  it('is exact where there are only alternatives', () => {
    expect(
      ['read', 'visit', 'write', 'glance'].map((name) => isExact(model, action('Doc', name))),
    ).toEqual([true, false, false, true]);
  });

  it('knows what is open to everybody', () => {
    expect(mayBeOpen(model, action('Folder', 'open'))).toBe(true);
    expect(mayBeOpen(model, action('Doc', 'glance'))).toBe(false);
    expect(expansionTo(model, [action('Folder', 'open')]).open.map(keyOf)).toEqual([
      'Folder#action:open',
    ]);
  });

  it('settles exclusions in order', () => {
    expect(model.stratum(action('Doc', 'write'))).toBe(1);
    expect(model.stratum(action('Doc', 'read'))).toBe(0);
  });
});

describe('references', () => {
  it.each([
    'User:a',
    'Doc_2:0198f000-0000-7000-8000-000000000001',
    'Type:openfga/openfga',
    'T:été',
  ])('%s is an object', (text) => {
    expect(formatObject(parseObject(text, 'resource'))).toBe(text);
  });

  it.each(['User:a', 'User:*', 'Team:t#member'])('%s is a subject', (text) => {
    expect(formatSubject(parseSubject(text, 'subject'))).toBe(text);
  });

  it('an id of a record is the same in either case; other ids are what they are', () => {
    const id = '0198f000-abcd-7000-8000-00000000000f';
    expect(parseObject(`Doc:${id.toUpperCase()}`, 'resource').id).toBe(id);
    expect(parseSubject(`User:${id.toUpperCase()}#member`, 'subject').id).toBe(id);
    expect(parseObject('Doc:ABC', 'resource').id).toBe('ABC');
  });

  it.each([
    '',
    'User',
    'User:',
    ':a',
    '*:a',
    'Doc:1:2',
    'Doc:1@x',
    'Doc:1,2',
    'Doc: 1',
    'Doc:a\u0000b',
    'Doc:a\u202Eb',
    'Doc:\uD800',
    '1Doc:a',
    'Do-c:a',
    '__proto__:a',
    `Doc:${'x'.repeat(1025)}`,
    `${'D'.repeat(65)}:a`,
  ])('%j is neither', (text) => {
    expect(() => parseObject(text, 'resource')).toThrow(/^resource: /);
    expect(() => parseSubject(text, 'subject')).toThrow(/^subject: /);
  });

  it.each(['User:a#', 'User:a#1', 'User:a#b#c', 'User:*#member', 'User:#member'])(
    '%j is no subject',
    (text) => {
      expect(() => parseSubject(text, 'subject')).toThrow(/^subject: /);
    },
  );

  it.each(['User:*', 'Team:t#member'])('%j is no object', (text) => {
    expect(() => parseObject(text, 'resource')).toThrow(/^resource: /);
  });
});

describe('actions that definitions give with others', () => {
  type Permissions = Readonly<Record<string, unknown>>;
  const box = (name: string, permissions: Permissions): DefinitionInput => ({
    name,
    relations: { owner: ['User', 'Crew'], reader: ['User', 'Crew'], up: ['Box'] },
    permissions: { read: [], edit: [], ...permissions },
  });
  const included = (
    permissions: Permissions,
    crew: Permissions,
    granted: readonly (readonly string[])[] = [],
  ): boolean => {
    const [inBox, inCrew] = granted;
    const types: readonly DefinitionInput[] = [
      { name: 'User', relations: {}, permissions: {} },
      {
        name: 'Crew',
        relations: { owner: ['User'], edit2: ['User'] },
        permissions: crew,
        ...(inCrew && { granted: inCrew }),
      },
      { ...box('Box', permissions), ...(inBox && { granted: inBox }) },
    ];
    return isIncluded(buildModel(types.map(parseDefinition), 1), 'Box', 'edit', 'read');
  };
  const both = { read: ['edit'], edit: ['owner'] };
  const through = { read: ['owner', 'owner->read'], edit: ['owner', 'owner->edit'] };

  it.each([
    ['by its name', { read: ['reader', 'edit'], edit: ['owner'] }, both, true],
    ['by the same relation', { read: ['owner'], edit: ['owner'] }, both, true],
    ['to everybody', { read: ['*'], edit: ['owner'] }, both, true],
    ['on what it leads to', through, both, true],
    ['up a tree', { read: ['owner', 'up->read'], edit: ['owner', 'up->edit'] }, both, false],
    ['not on what it leads to', through, { read: ['owner'], edit: ['edit2'] }, false],
    ['not there', { read: ['owner'], edit: ['owner', 'owner->edit2'] }, both, false],
    ['not by another relation', { read: ['reader'], edit: ['owner'] }, both, false],
    ['nothing by itself', { read: ['owner'], edit: [] }, both, false],
  ])('%s', (_how, permissions, crew, expected) => {
    expect(included(permissions, crew)).toBe(expected);
  });

  const tended = { read: ['owner'], edit: ['tend'], tend: ['owner'] };
  const owned = { read: ['owner'], edit: ['owner'] };
  type Given = Parameters<typeof included>;
  const direct: readonly (readonly [string, boolean, Given])[] = [
    ['the change itself', false, [owned, both, [['edit']]]],
    ['what makes the change', false, [tended, both, [['tend']]]],
    ['what the change makes', true, [{ ...tended, read: ['edit'] }, both, [['edit', 'tend']]]],
    ['something else', true, [owned, both, [['delete', 'read']]]],
    ['what both lead to', true, [through, both, [[], ['edit']]]],
    ['what one leads to', false, [through, owned, [[], ['edit']]]],
  ];
  it.each(direct)('where this was granted directly: %s', (_what, expected, given) => {
    expect(included(...given)).toBe(expected);
  });
});
