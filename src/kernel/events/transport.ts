/** How bus messages travel between processes. Text in, text out; nothing is kept for who is away. */
export interface BusTransport {
  /** Connects and starts to receive. `onState` tells of losses and returns afterwards. */
  start(receive: (message: string) => void, onState: (connected: boolean) => void): Promise<void>;
  /** To every node, this one included. */
  broadcast(message: string): Promise<void>;
  /** To one node. */
  send(nodeId: string, message: string): Promise<void>;
  close(): Promise<void>;
}
