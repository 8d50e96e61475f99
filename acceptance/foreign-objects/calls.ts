/**
 * Every operation of users, and how somebody could name with it what belongs to another. A new operation is not in
 * these lists: the test says so, and whoever adds it decides here.
 */
import {
  type Call,
  type Calls,
  chatCalls,
  fileCalls,
  get,
  patch,
  post,
  put,
  remove,
} from './module-calls.ts';
import { mark, type World } from './world.ts';

/** By operation; those that end something come last, since the owner makes the same calls in this order. */
export const calls: Readonly<Record<string, Calls>> = {
  'authentication.session.rename': ({ ids }) => [
    patch(`/authentication/sessions/${ids.session}`, { name: 'Mine' }),
  ],
  'authentication.passkeys.rename': ({ ids }) => [
    patch(`/authentication/passkeys/${ids.passkey}`, { name: 'Mine' }),
  ],
  'authentication.teams.get': ({ ids }) => [get(`/authentication/teams/${ids.team}`)],
  'authentication.teams.members': ({ ids }) => [
    get(`/authentication/teams/${ids.team}/members`),
    get(`/authentication/teams/${ids.team}/members?search=${mark}`),
  ],
  'authentication.teams.subTeams': ({ ids }) => [get(`/authentication/teams/${ids.team}/teams`)],
  'authentication.teams.create': ({ ids }) => [
    post('/authentication/teams', { name: 'Below yours', parentTeam: ids.team }),
  ],
  'authentication.teams.update': ({ ids }) => [
    patch(`/authentication/teams/${ids.team}`, { name: `${mark} again` }),
  ],
  'authentication.teams.addMember': ({ ids, eve }) => [
    post(`/authentication/teams/${ids.team}/add`, { userId: eve.userId, role: 'owner' }),
  ],
  'authentication.teams.changeMembers': ({ ids, carl }) => [
    patch(`/authentication/teams/${ids.team}/members`, {
      members: [carl.userId],
      role: 'readAll',
    }),
  ],
  'authentication.teams.invite': ({ ids }) => [
    post(`/authentication/teams/${ids.team}/invite`, {
      email: 'new@example.com',
      role: 'owner',
    }),
  ],
  'authentication.teams.invites': ({ ids }) => [get(`/authentication/teams/${ids.team}/invites`)],
  'authentication.teams.offer': ({ ids }) => [
    post(`/authentication/teams/${ids.team}/invite/persistent`, { role: 'owner' }),
  ],
  'authentication.teams.revokeInvite': ({ ids }) => [
    remove(`/authentication/teams/${ids.team}/invite?email=new@example.com`),
  ],
  'authentication.teams.revokeOffer': ({ ids }) => [
    remove(`/authentication/teams/${ids.team}/invite/persistent?invitationToken=${ids.offer}`),
  ],
  'authorization.check': ({ ids, anna }) => [
    get(`/authorization/check?action=read&resource=Note:${ids.note}&scope=User:${anna.userId}`),
    get(`/authorization/check?action=read&resource=Note:${ids.note}&scope=Team:${ids.team}`),
  ],
  'authorization.resources': ({ ids, anna }) =>
    [`User:${anna.userId}`, `Team:${ids.team}`].map((scope) =>
      post('/authorization/resources', { permission: 'read', resourceType: 'Note', scope }),
    ),
  'authorization.role': ({ ids, anna }) =>
    ['', `?scope=User:${anna.userId}`, `?scope=Team:${ids.team}`].map((scope) =>
      get(`/authorization/role/Team:${ids.team}${scope}`),
    ),
  'authorization.shares.give': ({ ids, carl }) => [
    post(`/authorization/shares/Note:${ids.note}`, {
      subject: `User:${carl.userId}`,
      relation: 'reader',
    }),
  ],
  'authorization.shares.list': ({ ids }) => [get(`/authorization/shares/Note:${ids.note}`)],
  'authorization.shares.take': ({ ids, carl }) => [
    remove(`/authorization/shares/Note:${ids.note}?subject=User:${carl.userId}&relation=reader`),
  ],
  'GET /database/Note': ({ ids }) => [get(`/database/Note?scope=Team:${ids.team}`)],
  'GET /database/Note/{id}': ({ ids }) => [get(`/database/Note/${ids.note}`)],
  'POST /database/Note': ({ ids }) => [
    post(`/database/Note?scope=Team:${ids.team}`, { text: 'in your team' }),
  ],
  'POST /database/Note/many': ({ ids }) => [
    post(`/database/Note/many?scope=Team:${ids.team}`, { docs: [{ text: 'in your team' }] }),
  ],
  'PATCH /database/Note/{id}': ({ ids }) => [
    patch(`/database/Note/${ids.note}`, { text: `${mark} 1` }),
  ],
  'PUT /database/Note/{id}': ({ ids }) => [
    put(`/database/Note/${ids.note}`, { text: `${mark} 2` }),
  ],
  'PATCH /database/Note/many': ({ ids }) => [
    patch('/database/Note/many', { docs: [{ _id: ids.note, text: `${mark} 3` }] }),
  ],
  'PUT /database/Note/many': ({ ids }) => [
    put('/database/Note/many', { docs: [{ _id: ids.note, text: `${mark} 4` }] }),
  ],
  'POST /database/Note/move': ({ ids }) => [post('/database/Note/move', { ids: [ids.note] })],
  'POST /database/Note/{id}/move': ({ ids }) => [
    post(`/database/Note/${ids.note}/move`),
    post(`/database/Note/${ids.note}/move`, { to: `Team:${ids.team}` }),
  ],
  'database.batch': ({ ids }) =>
    [
      { op: 'read', schema: 'Note', id: ids.note },
      { op: 'update', schema: 'Note', id: ids.note, data: { text: `${mark} 5` } },
    ].map((one) => post('/database/batch', { operations: [one] })),
  'graphql.execute': ({ ids }) => [
    post('/graphql', { query: `{ getDatabaseNoteId(id: "${ids.note}") { text } }` }),
    post('/graphql', { query: `{ getChatRoomsId(id: "${ids.room}") { name } }` }),
    post('/graphql', { query: `{ getStorageFileId(id: "${ids.file}") { name } }` }),
  ],
  'graphql.query': ({ ids }) => [
    get(
      `/graphql?query=${encodeURIComponent(`{ getDatabaseNoteId(id: "${ids.note}") { text } }`)}`,
    ),
  ],
  ...chatCalls(),
  ...fileCalls(),
  'communications.inbox.remove': ({ ids }) => [remove(`/notifications/${ids.notification}`)],
  'authentication.session.end': ({ ids }) => [remove(`/authentication/sessions/${ids.session}`)],
  'authentication.openid.withdrawConsent': ({ ids }) => [
    remove(`/authentication/apps/${ids.openidClient}`),
  ],
  'authentication.biometrics.remove': ({ ids }) => [
    remove(`/authentication/biometrics/keys/${ids.deviceKey}`),
  ],
  'authentication.identities.unlink': ({ ids }) => [
    remove(`/authentication/identities/${ids.identity}`),
  ],
  'authentication.passkeys.remove': ({ ids }) => [
    remove(`/authentication/passkeys/${ids.passkey}`),
  ],
  'DELETE /database/Note/{id}': ({ ids }) => [remove(`/database/Note/${ids.note}`)],
  'authentication.teams.removeMembers': ({ ids, carl }) => [
    remove(`/authentication/teams/${ids.team}/members?members=${carl.userId}`),
  ],
  'authentication.teams.delete': ({ ids }) => [remove(`/authentication/teams/${ids.subTeam}`)],
};

/**
 * What Eve may do with things of their own, naming what is Anna's: it stays unseen by that.
 */
export const leading = ({ ids, own, anna }: World): readonly Call[] => [
  ...[{ file: ids.file }, { files: [ids.file] }, { file: ids.trashed }, { note: ids.note }].flatMap(
    (data) => [
      post('/database/Holder', data),
      patch(`/database/Holder/${own.holder}`, data),
      patch('/database/Holder/many', { docs: [{ _id: own.holder, ...data }] }),
      post('/database/batch', {
        operations: [{ op: 'update', schema: 'Holder', id: own.holder, data }],
      }),
    ],
  ),
  post(`/chat/rooms/${own.room}/messages`, { contentType: 'file', files: [ids.file] }),
  post(`/chat/rooms/${own.room}/messages`, {
    contentType: 'text',
    content: 'x',
    threadRoot: ids.message,
  }),
  put(`/chat/rooms/${own.room}/read`, { upTo: ids.message }),
  patch('/notifications', { ids: [ids.notification] }),
  post(`/storage/file?scope=Team:${ids.team}`, { data: btoa('x'), name: 'x.txt' }),
  post(`/storage/file?scope=User:${anna.userId}`, { data: btoa('x'), name: 'x.txt' }),
  get(`/listen?schema=Note&scope=Team:${ids.team}`),
  get(`/listen?schema=Note&scope=User:${anna.userId}`),
];

/**
 * Names nothing that belongs to somebody, or is reached by a secret alone (links in mails, codes, signed addresses).
 */
export const nothingOfOthers: readonly string[] = [
  'authentication.biometrics.challenge',
  'authentication.biometrics.confirm',
  'authentication.biometrics.enrol',
  'authentication.biometrics.list',
  'authentication.biometrics.signIn',
  'authentication.emailCode.request',
  'authentication.emailCode.verify',
  'authentication.external.facebook',
  'authentication.external.google',
  'authentication.external.init',
  'authentication.external.initNative',
  'authentication.external.native',
  'authentication.hook.external',
  'authentication.hook.externalForm',
  'authentication.hook.showMagicLink',
  'authentication.hook.showUndoChangeEmail',
  'authentication.hook.startExternal',
  'authentication.hook.undoChangeEmail',
  'authentication.hook.useMagicLink',
  'authentication.hook.verifyChangeEmail',
  'authentication.hook.verifyEmail',
  'authentication.identities.link',
  'authentication.identities.list',
  'authentication.identities.startLink',
  'authentication.keys.discovery',
  'authentication.keys.list',
  'authentication.local.changeEmail',
  'authentication.local.changePassword',
  'authentication.local.login',
  'authentication.local.register',
  'authentication.local.registerAnonymous',
  'authentication.local.resendVerification',
  'authentication.local.verifyEmail',
  'authentication.magicLink.exchange',
  'authentication.magicLink.request',
  'authentication.metamask.authenticate',
  'authentication.metamask.nonce',
  'authentication.openid.authorize',
  'authentication.openid.confirmEndSession',
  'authentication.openid.consent',
  'authentication.openid.endSession',
  'authentication.openid.interaction',
  'authentication.openid.introspect',
  'authentication.openid.listConsents',
  'authentication.openid.page',
  'authentication.openid.resume',
  'authentication.openid.revoke',
  'authentication.openid.script',
  'authentication.openid.sessionEnded',
  'authentication.openid.signIn',
  'authentication.openid.token',
  'authentication.openid.userinfo',
  'authentication.openid.userinfoByPost',
  'authentication.passkeys.add',
  'authentication.passkeys.begin',
  'authentication.passkeys.beginSignIn',
  'authentication.passkeys.list',
  'authentication.passkeys.signIn',
  'authentication.password.forgot',
  'authentication.password.reset',
  'authentication.phone.request',
  'authentication.phone.verify',
  'authentication.session.endOthers',
  'authentication.session.exchange',
  'authentication.session.list',
  'authentication.session.logout',
  'authentication.session.renew',
  'authentication.session.stepUp',
  'authentication.teams.accept',
  'authentication.teams.acceptByLink',
  'authentication.teams.inviteFacts',
  'authentication.teams.leave',
  'authentication.teams.list',
  'authentication.teams.myInvites',
  'authentication.twoFa.authorize',
  'authentication.twoFa.beginPasskey',
  'authentication.twoFa.confirm',
  'authentication.twoFa.disable',
  'authentication.twoFa.enable',
  'authentication.twoFa.generateCodes',
  'authentication.twoFa.makeCodes',
  'authentication.twoFa.recover',
  'authentication.twoFa.verify',
  'authentication.twoFa.verifyPasskey',
  'authentication.user.delete',
  'authentication.user.get',
  'authentication.user.securityEvents',
  'authentication.user.update',
  'authentication.username.changePassword',
  'authentication.username.login',
  'authorization.checkMany',
  'authorization.legacyCheck',
  'chat.blocks.add',
  'chat.blocks.list',
  'chat.blocks.remove',
  'chat.hook.invitation',
  'chat.invitations.received',
  'chat.invitations.sent',
  'chat.rooms.create',
  'chat.rooms.direct',
  'chat.rooms.list',
  'chat.unread',
  'communications.devices.register',
  'communications.devices.unregister',
  'communications.inbox.count',
  'communications.inbox.list',
  'communications.inbox.mark',
  'communications.preferences.change',
  'communications.preferences.get',
  'communications.topics.subscribe',
  'communications.topics.unsubscribe',
  'communications.unsubscribe.act',
  'communications.unsubscribe.page',
  'communications.webhooks.receive',
  'communications.webhooks.report',
  'core.health.clientLive',
  'core.health.clientReady',
  'docs.client.asset',
  'docs.client.description',
  'docs.client.front',
  'docs.client.viewer.reference',
  'docs.client.viewer.swagger',
  'embeddings.search',
  'forms.challenge',
  'forms.file',
  'forms.get',
  'forms.hook.confirm',
  'forms.hook.showConfirmation',
  'forms.script',
  'forms.submit',
  'forms.submitFormer',
  'graphql.asset',
  'realtime.description',
  'realtime.listen',
  'realtime.listenWithTicket',
  'realtime.ticket',
  'storage.blob.get',
  'storage.blob.put',
  'storage.file.publicUrl',
  'storage.folder.create',
  'storage.link.use',
  'storage.resumable.create',
  'storage.trash.list',
];
