import { expect, test } from 'vitest';
import { createRechecks, type Holder } from './rechecks.ts';

function opened() {
  const rechecks = createRechecks();
  const looked: string[] = [];
  const enter = (name: string, holder: Holder) =>
    rechecks.enter(holder, {
      async recheck() {
        looked.push(name);
      },
    });
  const happens = (event: Parameters<typeof rechecks.recheckSubjects>[0]): readonly string[] => {
    rechecks.recheckSubjects(event);
    rechecks.stop();
    return looked.splice(0);
  };
  return { enter, happens, looked, rechecks };
}

test('a change of an app is looked at by all who came with it, visitors too, and by nobody else', () => {
  const { enter, happens } = opened();
  enter('user', { userId: 'u1', app: 'a1' });
  enter('visitor', { userId: '', app: 'a1' });
  enter('of another app', { userId: 'u1', app: 'a2' });
  enter('without an app', { userId: '', app: undefined });
  const payload = { clientId: 'a1' };
  expect(happens({ topic: 'router:delete:client', ids: ['x'], payload })).toEqual([
    'user',
    'visitor',
  ]);
  // What other events say is their own business.
  expect(happens({ topic: 'functions:said', payload })).toEqual([]);
});

test('an event about a user is looked at by what is theirs, until it is gone', () => {
  const { enter, happens, looked, rechecks } = opened();
  const leave = enter('one', { userId: 'u1', app: 'a1' });
  enter('two', { userId: 'u1', app: undefined });
  enter('other', { userId: 'u2', app: undefined });
  expect(happens({ topic: 'authentication:logout:user', ids: ['u1'] })).toEqual(['one', 'two']);
  leave();
  expect(happens({ topic: 'authentication:logout:user', ids: ['u1'] })).toEqual(['two']);
  expect(happens({ topic: 'router:delete:client', payload: { clientId: 'a1' } })).toEqual([]);
  rechecks.recheckAll();
  expect(looked).toEqual(['two', 'other']);
});

test('the end of a session is looked at by what is open for it now, and waited for', async () => {
  const { enter, looked, rechecks } = opened();
  let session = 's1';
  enter('one', { userId: 'u1', app: 'a1', sessionId: () => session });
  enter('other', { userId: 'u1', app: 'a2', sessionId: () => 's2' });
  enter('visitor', { userId: '', app: 'a1', sessionId: () => undefined });
  await rechecks.recheckEnded({ sessions: ['s1', 's3', ''] });
  expect(looked.splice(0)).toEqual(['one']);
  session = 's4';
  await rechecks.recheckEnded({ sessions: ['s1'] });
  expect(looked).toEqual([]);
  await rechecks.recheckEnded({ sessions: ['s4'] });
  await rechecks.recheckEnded({ apps: ['a1'] });
  expect(looked).toEqual(['one', 'one', 'visitor']);
});
