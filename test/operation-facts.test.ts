/**
 * What operations say of themselves decides what a token that may only read can do, and what models are told.
 * The lists are written out: whoever adds an operation decides here, in sight of the others.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { OwnedOperation } from '../src/kernel/operations/registry.ts';
import { readSettings } from '../src/kernel/settings/settings.ts';
import { type Platform, startPlatform } from '../src/platform.ts';
import type { TestDatabase } from './support/database.ts';
import { platformDatabase, testEnvironment } from './support/platform.ts';
import { removeFolder, temporaryFolder } from './support/temporary-folder.ts';

describe('admin operations', () => {
  let database: TestDatabase;
  let platform: Platform;
  let dataDir: string;
  let operations: readonly OwnedOperation['operation'][];

  beforeAll(async () => {
    database = await platformDatabase('embedded');
    dataDir = await temporaryFolder('data');
    platform = await startPlatform({
      settings: readSettings(testEnvironment(dataDir, database.url)),
    });
    operations = platform.kernel.operations
      .all()
      .flatMap(({ operation }) => (operation.surface === 'admin' ? [operation] : []));
  });
  afterAll(async () => {
    await platform.close();
    await database.drop();
    await removeFolder(dataDir);
  });

  const ids = (isRequested: (operation: OwnedOperation['operation']) => boolean): string[] =>
    operations
      .filter(isRequested)
      .map(({ id }) => id)
      .sort();

  test('that read although their method is not GET are these', () => {
    expect(ids(({ method, readOnly }) => method !== 'GET' && readOnly === true)).toEqual([
      'authorization.permissions.canWith',
      'authorization.permissions.check',
      'authorization.permissions.evaluateWith',
      'authorization.permissions.resourcesWith',
      'authorization.permissions.subjectsOfMany',
      'authorization.permissions.subjectsWith',
      'communications.templates.preview',
      'communications.unifiedTemplates.preview',
      'core.state.plan',
      'database.documents.query',
      'database.insights.explain',
      'database.schemas.plan',
      'database.vectorSearch',
      'docs.realtimeTicket',
      'embeddings.admin.search',
      'mcp.call',
      'router.eventRelays.preview',
    ]);
  });

  test('with GET that write are these', () => {
    expect(ids(({ method, changes }) => method === 'GET' && changes === true)).toEqual([
      'core.serviceAccounts.renew',
    ]);
  });

  test('that answer a secret which is shown once are these, and none is kept for replay', () => {
    expect(ids(({ answersSecret }) => answersSecret === true)).toEqual([
      'authentication.openidClients.create',
      'authentication.openidClients.rotateSecret',
      'authentication.users.impersonate',
      'core.apiTokens.create',
      'core.secondFactor.confirm',
      'core.secondFactor.toggle',
      'core.serviceAccounts.create',
      'core.serviceAccounts.renew',
      'core.session.login',
      'core.session.verifySecondFactor',
      'docs.realtimeTicket',
      'router.clients.create',
      'router.clients.rotateSecret',
      'webhooks.endpoints.create',
      'webhooks.endpoints.rotateSecret',
    ]);
    expect(
      ids(({ answersSecret, idempotency }) => answersSecret === true && idempotency !== false),
    ).toEqual([]);
  });

  test('that reach people outside are these', () => {
    expect(ids(({ openWorld }) => openWorld === true)).toEqual([
      'authentication.users.requirePassword',
      'authentication.users.resetSecondFactor',
      'chat.adminMessages.send',
      'communications.broadcasts.send',
      'communications.email.resend',
      'communications.email.send',
      'communications.email.test',
      'communications.messages.retry',
      'communications.push.send',
      'communications.push.sendMany',
      'communications.push.sendToTopic',
      'communications.send',
      'communications.sendFallback',
      'communications.sendMultiple',
      'communications.sms.send',
      'communications.sms.sendMany',
      'communications.templates.create',
      'communications.templates.listExternal',
      'communications.templates.sync',
      'communications.templates.upload',
      'communications.templates.uploadByBody',
      'forms.submissions.judge',
      'webhooks.deliveries.replay',
      'webhooks.deliveries.replayFailed',
      'webhooks.endpoints.create',
      'webhooks.endpoints.test',
      'webhooks.endpoints.update',
    ]);
  });
});
